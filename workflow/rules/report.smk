# From runs to what people read: the winner of an experiment, its table and curves, and one report of everything.


# A checkpoint, so that Snakemake plans anew what inherits from this experiment once its winner is known: the file holds
# the winning values alone, and an unchanged one runs nothing again. Only jobs that ask the checkpoint are planned anew,
# hence `inherited` below, which the programs do not read.
checkpoint select:
    input:
        spec=spec_file(f"{RESULTS}/winners/{{experiment}}.spec.json", specs.selection),
        runs=run_files("metrics.parquet", "status.json"),
        inherited=winners,
    output:
        WINNER,
    log:
        "logs/select/{experiment}.log",
    params:
        spec=spec_text(specs.selection),
        runs=run_folders,
    message:
        "Choose the winner of experiment {wildcards.experiment}."
    shell:
        "{PYTHON} -m stages.select --spec {input.spec:q} --out {output:q} {params.runs:q} &> {log:q}"


rule experiment:
    input:
        spec=spec_file(f"{RESULTS}/{{experiment}}.spec.json", specs.summary),
        winner=WINNER,
        runs=run_files("metrics.parquet", "generations.parquet", "status.json"),
        inherited=winners,
    output:
        directory(SUMMARY),
    log:
        "logs/experiment/{experiment}.log",
    params:
        spec=spec_text(specs.summary),
        runs=run_folders,
    message:
        "Summarise experiment {wildcards.experiment}: table, curves, winner, transcripts."
    shell:
        "{PYTHON} -m stages.summarize --spec {input.spec:q} --winner {input.winner:q} --out {output:q}"
        " {params.runs:q} &> {log:q}"


rule report:
    input:
        spec=spec_file(f"{RESULTS}/report.spec.json", specs.report),
        base=f"{BASE_MODEL}.metrics.parquet",
        examples=[paths.dataset(RESULTS, name) for name in CONFIG.data],
        evaluations=[
            f"{paths.evaluation(RESULTS, name)}/{file}.parquet"
            for name in CONFIG.evaluations
            for file in ("graded", "metrics")
        ],
        summaries=[paths.summary(RESULTS, name) for name in CONFIG.experiments],
        winners=[paths.winner(RESULTS, name) for name in CONFIG.experiments],
        runs=[
            f"{paths.run(RESULTS, name, run)}/{file}"
            for name, runs in CONFIG.runs.items()
            for run in runs
            for file in ("metrics.parquet", "generations.parquet", "status.json")
        ],
    output:
        html=f"{RESULTS}/report.html",
        markdown=f"{RESULTS}/report.md",
    log:
        "logs/report.log",
    params:
        spec=spec_text(specs.report),
    message:
        "Write the report."
    shell:
        "{PYTHON} -m stages.report --spec {input.spec:q} --html {output.html:q} --markdown {output.markdown:q}"
        " &> {log:q}"
