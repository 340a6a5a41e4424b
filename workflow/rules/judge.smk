# Judges: one policy decides about the responses of evaluations where no answer is right.


def deciding_policy(wildcards):
    """Input function: the folder of a judge. One on the Hub is fetched by the job, into the cache, and not copied."""
    path = CONFIG.judges[wildcards.judge].model.path
    return [] if path is None else own(f"judges.{wildcards.judge}.model.path", path)


rule judge:
    input:
        spec=spec_file(f"{JUDGEMENT}/spec.json", specs.judging),
        rollouts=f"{EVALUATION}/rollouts.parquet",
        data=lambda w: paths.dataset(RESULTS, CONFIG.evaluations[w.evaluation].dataset),
        model=deciding_policy,
        inherited=sampled_anew,
    output:
        verdicts=f"{JUDGEMENT}/verdicts.parquet",
        metrics=f"{JUDGEMENT}/metrics.parquet",
    log:
        paths.log(RESULTS, "judge", "{judge}", "{evaluation}"),
    threads: 1
    resources:
        gpu=lambda w: hardware.sampling_gpus(specs.compute_of(CONFIG, w.judge)),
        mem_mb=8000,
        runtime=240,
    params:
        spec=spec_text(specs.judging),
        state=f"{JUDGEMENT}/state",
    message:
        "Let {wildcards.judge} judge the responses of evaluation {wildcards.evaluation}."
    shell:
        "{PYTHON} -m stages.judge --spec {input.spec:q} --rollouts {input.rollouts:q} --data {input.data:q}"
        " --state {params.state:q} --verdicts {output.verdicts:q} --metrics {output.metrics:q} >> {log:q} 2>&1"
