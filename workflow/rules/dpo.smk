# Direct preference optimisation.


rule dpo:
    input:
        spec=spec_file(f"{RUN}/spec.json", specs.training),
        model=starting_policy,
        train=dataset_of("train"),
        validation=dataset_of("validation"),
        winners=winners,
    output:
        metrics=f"{RUN}/metrics.parquet",
        generations=f"{RUN}/generations.parquet",
        checkpoint=directory(f"{RUN}/model"),
        status=f"{RUN}/status.json",
    log:
        paths.log(RESULTS, "dpo", "{experiment}", "{run}"),
    wildcard_constraints:
        experiment=experiments_of("dpo"),
    threads: PROCESSES
    resources:
        gpu=TRAINING_GPUS,
        mem_mb=8000,
        runtime=240,
    params:
        spec=spec_text(specs.training),
        state=f"{RUN}/state",
        winners=winner_options,
    message:
        "Train on preferences: {wildcards.experiment}, {wildcards.run}."
    shell:
        "{TRAIN} -m stages.dpo --spec {input.spec:q} --model {input.model:q} --train {input.train:q}"
        " --validation {input.validation:q} {params.winners:q} --state {params.state:q}"
        " --metrics {output.metrics:q} --generations {output.generations:q}"
        " --checkpoint {output.checkpoint:q} --status {output.status:q} >> {log:q} 2>&1"
