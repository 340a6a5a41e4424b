# Datasets as Parquet: generated, read from a file, or filtered from another dataset.


def datasets_of(chosen):
    return one_of(name for name, source in CONFIG.data.items() if chosen(source.source))


def source_of(wildcards):
    """Input function: the user's file that a dataset is read from, if it is."""
    path = getattr(CONFIG.data[wildcards.dataset], "path", None)
    return [] if path is None else own(f"data.{wildcards.dataset}.path", path)


rule prepare:
    input:
        spec=spec_file(f"{RESULTS}/data/{{dataset}}.spec.json", specs.dataset),
        source=source_of,
    output:
        DATASET,
    log:
        paths.log(RESULTS, "prepare", "{dataset}"),
    wildcard_constraints:
        dataset=datasets_of(lambda source: source not in ("curated", "pass_rate")),
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        spec=spec_text(specs.dataset),
    message:
        "Prepare dataset {wildcards.dataset}."
    shell:
        "{PYTHON} -m stages.prepare --spec {input.spec:q} --out {output:q} >> {log:q} 2>&1"


rule curate:
    input:
        spec=spec_file(f"{RESULTS}/data/{{dataset}}.spec.json", specs.dataset),
        examples=lambda w: paths.dataset(RESULTS, CONFIG.data[w.dataset].dataset),
    output:
        DATASET,
    log:
        paths.log(RESULTS, "curate", "{dataset}"),
    wildcard_constraints:
        dataset=datasets_of(lambda source: source == "curated"),
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        spec=spec_text(specs.dataset),
    message:
        "Keep the correctly answered examples as dataset {wildcards.dataset}."
    shell:
        "{PYTHON} -m stages.curate --spec {input.spec:q} --examples {input.examples:q} --out {output:q} >> {log:q} 2>&1"


rule pass_rate:
    input:
        spec=spec_file(f"{RESULTS}/data/{{dataset}}.spec.json", specs.dataset),
        examples=lambda w: paths.dataset(RESULTS, CONFIG.evaluations[CONFIG.data[w.dataset].evaluation].dataset),
        graded=lambda w: f"{paths.evaluation(RESULTS, CONFIG.data[w.dataset].evaluation)}/graded.parquet",
    output:
        DATASET,
    log:
        paths.log(RESULTS, "pass_rate", "{dataset}"),
    wildcard_constraints:
        dataset=datasets_of(lambda source: source == "pass_rate"),
    params:
        spec=spec_text(specs.dataset),
    message:
        "Keep the questions within the pass rates of dataset {wildcards.dataset}."
    shell:
        "{PYTHON} -m stages.pass_rate --spec {input.spec:q} --examples {input.examples:q} --graded {input.graded:q}"
        " --out {output:q} >> {log:q} 2>&1"
