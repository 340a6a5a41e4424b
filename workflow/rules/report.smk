# From runs to what people read: the winner of an experiment, its table and curves, and one report of everything.

SHOWN = ("metrics.parquet", "generations.parquet", "status.json")  # files of a run that say what it came to


# A checkpoint, so that Snakemake plans anew what inherits from this experiment once its winner is known: the file holds
# the winning values alone, and an unchanged one runs nothing again. Only jobs that ask the checkpoint are planned anew,
# hence `inherited` below, which the programs do not read.
checkpoint select:
    input:
        spec=spec_file(f"{RESULTS}/winners/{{experiment}}.spec.json", specs.selection),
        runs=run_files(*SHOWN),
        inherited=winners,
    output:
        WINNER,
    log:
        paths.log(RESULTS, "select", "{experiment}"),
    params:
        spec=spec_text(specs.selection),
        runs=run_folders,
    message:
        "Choose the winner of experiment {wildcards.experiment}."
    shell:
        "{PYTHON} -m stages.select --spec {input.spec:q} --out {output:q} {params.runs:q} >> {log:q} 2>&1"


def references_of(wildcards):
    """Input function: winners and run files of the experiments that this one is compared with."""
    names = CONFIG.experiments[wildcards.experiment].compare_with
    return [*chosen(names), *(file for name in names for file in files_shown(name))]


def files_shown(name):
    return [f"{paths.run(RESULTS, name, run)}/{file}" for run in CONFIG.runs[name] for file in SHOWN]


def by_reference(names):
    """What the course's grader makes of the runs of experiments with a budget; nothing where the config names none."""
    asked = [name for name in names if specs.board(CONFIG, name).get("reference")]
    return [f"{paths.run(RESULTS, name, run)}/reference.json" for name in asked for run in CONFIG.runs[name]]


rule reference:
    input:
        spec=spec_file(f"{RUN}/reference.spec.json", specs.reference),
        metrics=f"{RUN}/metrics.parquet",
        generations=f"{RUN}/generations.parquet",
        status=f"{RUN}/status.json",
    output:
        f"{RUN}/reference.json",
    log:
        paths.log(RESULTS, "reference", "{experiment}", "{run}"),
    resources:
        mem_mb=8000,
        runtime=120,
    params:
        spec=spec_text(specs.reference),
        run=RUN,
        file=CONFIG.reference_grader,
    message:
        "Let the reference grader read {wildcards.experiment}, {wildcards.run}."
    shell:
        "{PYTHON} -m stages.grade --reference {params.file:q} --run {params.run:q} --out {output:q} >> {log:q} 2>&1"


rule experiment:
    input:
        spec=spec_file(f"{RESULTS}/{{experiment}}.spec.json", specs.summary),
        winner=WINNER,
        runs=run_files(*SHOWN),
        official=lambda w: by_reference([w.experiment]),
        inherited=winners,
        references=references_of,
    output:
        directory(SUMMARY),
    log:
        paths.log(RESULTS, "experiment", "{experiment}"),
    params:
        spec=spec_text(specs.summary),
        runs=run_folders,
    message:
        "Summarise experiment {wildcards.experiment}: table, curves, winner, transcripts."
    shell:
        "{PYTHON} -m stages.summarize --spec {input.spec:q} --winner {input.winner:q} --out {output:q}"
        " {params.runs:q} >> {log:q} 2>&1"


def summaries_of(page):
    return [paths.summary(RESULTS, name) for name in pages.experiments(CONFIG, page)]


def read_by(wildcards):
    """Input function: every file that the page shows something of."""
    shown = pages.experiments(CONFIG, wildcards.page)
    names = dict.fromkeys([*shown, *(other for name in shown for other in CONFIG.experiments[name].compare_with)])
    return [file for name in names for file in (paths.winner(RESULTS, name), *files_shown(name))]


rule report:
    input:
        spec=spec_file(f"{RESULTS}/{{page}}.spec.json", specs.report),
        base=f"{BASE_MODEL}.metrics.parquet",
        examples=lambda w: [paths.dataset(RESULTS, name) for name in pages.datasets(CONFIG, w.page)],
        evaluations=lambda w: [
            f"{paths.evaluation(RESULTS, name)}/{file}.parquet"
            for name in pages.evaluations(CONFIG, w.page)
            for file in ("graded", "metrics")
        ],
        judgements=lambda w: [
            f"{paths.judgement(RESULTS, judge, name)}/{file}.parquet"
            for judge, name in pages.judgements(CONFIG, w.page)
            for file in ("verdicts", "metrics")
        ],
        official=lambda w: by_reference(pages.experiments(CONFIG, w.page)),
        summaries=lambda w: summaries_of(w.page),
        runs=read_by,
    output:
        html=f"{RESULTS}/{{page}}.html",
        markdown=f"{RESULTS}/{{page}}.md",
    log:
        paths.log(RESULTS, "report", "{page}"),
    wildcard_constraints:
        page="report|ladder",
    params:
        spec=spec_text(specs.report),
    message:
        "Write the {wildcards.page}."
    shell:
        "{PYTHON} -m stages.report --spec {input.spec:q} --html {output.html:q} --markdown {output.markdown:q}"
        " >> {log:q} 2>&1"
