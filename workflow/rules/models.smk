# The policy that everything starts from.


rule base_model:
    input:
        spec=spec_file(f"{BASE_MODEL}.spec.json", specs.base_model),
        source=sorted(filter(Path.is_file, Path(CONFIG.model.path).iterdir())) if CONFIG.model.path else [],
    output:
        model=directory(BASE_MODEL),
        metrics=f"{BASE_MODEL}.metrics.parquet",
    log:
        "logs/base_model.log",
    threads: 2
    resources:
        mem_mb=8000,
        runtime=120,
    params:
        spec=spec_text(specs.base_model),
        state=f"{BASE_MODEL}.state",
    message:
        "Make the base policy: pretrain it, or copy it from a folder or the hub."
    shell:
        "{PYTHON} -m stages.base_model --spec {input.spec:q} --state {params.state:q} --model {output.model:q}"
        " --metrics {output.metrics:q} &> {log:q}"
