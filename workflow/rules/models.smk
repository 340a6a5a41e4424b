# The policy that everything starts from.


def policy_files(wildcards):
    """Input function: the files of a policy's folder, so that other weights in it make the base policy anew."""
    if CONFIG.model.path is None:
        return []
    folder = Path(CONFIG.model.path)
    return sorted(filter(Path.is_file, folder.iterdir())) if folder.is_dir() else own("model.path", str(folder))


rule base_model:
    input:
        spec=spec_file(f"{BASE_MODEL}.spec.json", specs.base_model),
        source=policy_files,
    output:
        model=directory(BASE_MODEL),
        metrics=f"{BASE_MODEL}.metrics.parquet",
    log:
        paths.log(RESULTS, "base_model"),
    threads: 2
    resources:
        mem_mb=8000,
        runtime=120,
    params:
        spec=spec_text(specs.base_model),
        state=f"{BASE_MODEL}.state",
    message:
        "Make the base policy: copy it from a folder or the hub, or pretrain it."
    shell:
        "{PYTHON} -m stages.base_model --spec {input.spec:q} --state {params.state:q} --model {output.model:q}"
        " --metrics {output.metrics:q} >> {log:q} 2>&1"
