# The post-training ladder. What runs is said in config.yaml; each rule is one program of stages/.
#
#   snakemake --cores 2                          the main experiments, up to results/report.html
#   snakemake --cores 2 ladder                   all experiments, up to results/ladder.html
#   snakemake --cores 2 results/grpo_lr_sweep    one experiment: its runs, winner, table and curves
#   snakemake -n                                 what would run, and why; what inherits from a winner that is still to be
#                                                chosen is listed too, and will run only if that winner changes
import sys

sys.path.insert(0, workflow.basedir)

from workflow import config_text

config_text.check(workflow.overwrite_configfiles or ["config.yaml"])

# A file given with --configfile is a whole config of its own: merged into config.yaml, its experiments would mix with
# those of the ladder.
if not workflow.overwrite_configfiles:

    configfile: "config.yaml"


include: "workflow/rules/common.smk"
include: "workflow/rules/models.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/rollouts.smk"
include: "workflow/rules/judge.smk"
include: "workflow/rules/sft.smk"
include: "workflow/rules/expert_iteration.smk"
include: "workflow/rules/grpo.smk"
include: "workflow/rules/instruct.smk"
include: "workflow/rules/dpo.smk"
include: "workflow/rules/report.smk"


localrules:
    all,
    ladder,
    select,
    experiment,
    report,


rule all:
    default_target: True
    input:
        summaries_of("report"),
        f"{RESULTS}/report.html",


rule ladder:
    input:
        summaries_of("ladder"),
        f"{RESULTS}/ladder.html",
