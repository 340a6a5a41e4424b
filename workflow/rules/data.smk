# Datasets as Parquet: generated, read from a file, or filtered from another dataset.


rule prepare:
    input:
        spec=spec_file(f"{RESULTS}/data/{{dataset}}.spec.json", specs.dataset),
        source=lambda w: getattr(CONFIG.data[w.dataset], "path", None) or [],
    output:
        DATASET,
    log:
        "logs/prepare/{dataset}.log",
    wildcard_constraints:
        dataset=one_of(name for name, source in CONFIG.data.items() if source.source != "curated"),
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        spec=spec_text(specs.dataset),
    message:
        "Prepare dataset {wildcards.dataset}."
    shell:
        "{PYTHON} -m stages.prepare --spec {input.spec:q} --out {output:q} &> {log:q}"


rule curate:
    input:
        spec=spec_file(f"{RESULTS}/data/{{dataset}}.spec.json", specs.dataset),
        examples=lambda w: paths.dataset(RESULTS, CONFIG.data[w.dataset].dataset),
    output:
        DATASET,
    log:
        "logs/curate/{dataset}.log",
    wildcard_constraints:
        dataset=one_of(name for name, source in CONFIG.data.items() if source.source == "curated"),
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        spec=spec_text(specs.dataset),
    message:
        "Keep the correctly answered examples as dataset {wildcards.dataset}."
    shell:
        "{PYTHON} -m stages.curate --spec {input.spec:q} --examples {input.examples:q} --out {output:q} &> {log:q}"
