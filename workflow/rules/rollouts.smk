# Evaluations: one policy on one dataset, sampled, then graded.


def sampled_policy(wildcards):
    """Input function: the policy that an evaluation samples from."""
    return policy(CONFIG.evaluations[wildcards.evaluation].model)


def sampled_anew(wildcards):
    """Input function without files, for what comes after sampling: it asks for the same winner, as `settled` does."""
    sampled_policy(wildcards)
    return []


rule sample:
    input:
        spec=spec_file(f"{EVALUATION}/spec.json", specs.sampling),
        model=sampled_policy,
        data=lambda w: paths.dataset(RESULTS, CONFIG.evaluations[w.evaluation].dataset),
    output:
        f"{EVALUATION}/rollouts.parquet",
    log:
        paths.log(RESULTS, "sample", "{evaluation}"),
    threads: 1
    resources:
        gpu=SAMPLING_GPUS,
        mem_mb=8000,
        runtime=120,
    params:
        spec=spec_text(specs.sampling),
        state=f"{EVALUATION}/state",
    message:
        "Sample responses for evaluation {wildcards.evaluation}."
    shell:
        "{PYTHON} -m stages.sample --spec {input.spec:q} --model {input.model:q} --data {input.data:q}"
        " --state {params.state:q} --rollouts {output:q} >> {log:q} 2>&1"


rule grade:
    input:
        spec=spec_file(f"{EVALUATION}/grade.spec.json", specs.grading),
        rollouts=f"{EVALUATION}/rollouts.parquet",
        inherited=sampled_anew,
    output:
        graded=f"{EVALUATION}/graded.parquet",
        metrics=f"{EVALUATION}/metrics.parquet",
    log:
        paths.log(RESULTS, "grade", "{evaluation}"),
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        spec=spec_text(specs.grading),
    message:
        "Grade the responses of evaluation {wildcards.evaluation}."
    shell:
        "{PYTHON} -m stages.grade --spec {input.spec:q} --rollouts {input.rollouts:q} --graded {output.graded:q}"
        " --metrics {output.metrics:q} >> {log:q} 2>&1"
