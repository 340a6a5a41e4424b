# Expert iteration: each round is the chain sample -> grade -> survivors -> fine-tune, cached file by file.


def round_model(wildcards):
    """Input function: the policy a round starts from."""
    before = int(wildcards.round) - 1
    if not before:
        return starting_policy(wildcards)
    return f"{paths.round_folder(RUN.format(**dict(wildcards.items())), before)}/model"


def settled(wildcards):
    """Input function without files, for jobs behind what builds on winners: it asks for those, so that the job is
    planned anew once they are known. It would run whenever a winner was chosen again, even the same one."""
    chosen(started_from(wildcards)) if wildcards.get("round") == "1" else winners(wildcards)
    return []


def rounds_of(wildcards):
    count = CONFIG.runs[wildcards.experiment][wildcards.run]["n_ei_steps"]
    folder = paths.run(RESULTS, wildcards.experiment, wildcards.run)
    return [paths.round_folder(folder, number) for number in range(1, count + 1)]


def round_files(*names):
    """Input function: these files of every round of a run."""
    return lambda wildcards: [f"{folder}/{name}" for folder in rounds_of(wildcards) for name in names]


rule round_sample:
    input:
        spec=spec_file(f"{ROUND}/sample.spec.json", specs.round_sampling),
        model=round_model,
        data=dataset_of("train"),
        inherited=settled,
    output:
        f"{ROUND}/rollouts.parquet",
    log:
        paths.round_log(RESULTS, "{experiment}", "{run}", "{round}", "sample"),
    priority: 1  # rounds wait for each other: the longest chain of all goes first
    threads: 1
    resources:
        gpu=SAMPLING_GPUS,
        mem_mb=8000,
        runtime=240,
    params:
        spec=spec_text(specs.round_sampling),
        state=f"{ROUND}/sample.state",
    message:
        "Sample for expert iteration: {wildcards.experiment}, {wildcards.run}, round {wildcards.round}."
    shell:
        "{PYTHON} -m stages.sample --spec {input.spec:q} --model {input.model:q} --data {input.data:q}"
        " --state {params.state:q} --rollouts {output:q} >> {log:q} 2>&1"


rule round_grade:
    input:
        spec=spec_file(f"{ROUND}/grade.spec.json", specs.round_grading),
        rollouts=f"{ROUND}/rollouts.parquet",
        inherited=settled,
    output:
        f"{ROUND}/graded.parquet",
    log:
        paths.round_log(RESULTS, "{experiment}", "{run}", "{round}", "grade"),
    priority: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        spec=spec_text(specs.round_grading),
    message:
        "Grade for expert iteration: {wildcards.experiment}, {wildcards.run}, round {wildcards.round}."
    shell:
        "{PYTHON} -m stages.grade --spec {input.spec:q} --rollouts {input.rollouts:q} --graded {output:q} >> {log:q} 2>&1"


rule round_survivors:
    input:
        spec=spec_file(f"{ROUND}/survivors.spec.json", specs.round_survivors),
        graded=f"{ROUND}/graded.parquet",
        data=dataset_of("train"),
        inherited=settled,
    output:
        f"{ROUND}/survivors.parquet",
    log:
        paths.round_log(RESULTS, "{experiment}", "{run}", "{round}", "survivors"),
    priority: 1
    params:
        spec=spec_text(specs.round_survivors),
    message:
        "Keep what is right: {wildcards.experiment}, {wildcards.run}, round {wildcards.round}."
    shell:
        "{PYTHON} -m stages.survivors --spec {input.spec:q} --graded {input.graded:q} --data {input.data:q}"
        " --out {output:q} >> {log:q} 2>&1"


rule round_sft:
    input:
        spec=spec_file(f"{ROUND}/spec.json", specs.round_tuning),
        model=round_model,
        train=f"{ROUND}/survivors.parquet",
        validation=dataset_of("validation"),
        winners=winners,
    output:
        metrics=f"{ROUND}/metrics.parquet",
        generations=f"{ROUND}/generations.parquet",
        checkpoint=directory(f"{ROUND}/model"),
        status=f"{ROUND}/status.json",
    log:
        paths.round_log(RESULTS, "{experiment}", "{run}", "{round}", "sft"),
    priority: 1
    threads: PROCESSES
    resources:
        gpu=TRAINING_GPUS,
        mem_mb=8000,
        runtime=240,
    params:
        spec=spec_text(specs.round_tuning),
        state=f"{ROUND}/state",
        winners=winner_options,
    message:
        "Fine-tune on what is right: {wildcards.experiment}, {wildcards.run}, round {wildcards.round}."
    shell:
        "{TRAIN} -m stages.sft --spec {input.spec:q} --model {input.model:q} --train {input.train:q}"
        " --validation {input.validation:q} {params.winners:q} --state {params.state:q}"
        " --metrics {output.metrics:q} --generations {output.generations:q}"
        " --checkpoint {output.checkpoint:q} --status {output.status:q} >> {log:q} 2>&1"


rule collect:
    input:
        spec=spec_file(f"{RUN}/spec.json", specs.collection),
        rounds=round_files("survivors.parquet", "metrics.parquet", "generations.parquet", "status.json", "model"),
        inherited=settled,
    output:
        metrics=f"{RUN}/metrics.parquet",
        generations=f"{RUN}/generations.parquet",
        checkpoint=directory(f"{RUN}/model"),
        status=f"{RUN}/status.json",
    log:
        paths.log(RESULTS, "expert_iteration", "{experiment}", "{run}"),
    wildcard_constraints:
        experiment=experiments_of("expert_iteration"),
    params:
        spec=spec_text(specs.collection),
        rounds=rounds_of,
    message:
        "Put the rounds together: {wildcards.experiment}, {wildcards.run}."
    shell:
        "{PYTHON} -m stages.collect --spec {input.spec:q} --metrics {output.metrics:q}"
        " --generations {output.generations:q} --checkpoint {output.checkpoint:q} --status {output.status:q}"
        " {params.rounds:q} >> {log:q} 2>&1"
