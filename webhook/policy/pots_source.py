"""Reads `_quotas.yaml`: pots with every mistake in them, each filled up from what `_default.yaml` says of counting."""

import json
from collections.abc import Mapping

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from webhook.model.accelerators import BUILT_IN, CONTEXT, Accelerators
from webhook.policy.bound_quotas import NO_POTS, BoundQuota, Pots
from webhook.policy.document import check_names_differ, mapping_at, read_document, read_head
from webhook.policy.error_wording import details_of, locate, message_for
from webhook.policy.merge import merge
from webhook.policy.policy_errors import Faults, KeyPath
from webhook.policy.policy_source import RULES_PATH
from webhook.policy.pots import INHERITED, PotSettings, QuotasFile, quotas_schema
from webhook.policy.schema import DEFAULT_FILE, QUOTAS_FILE, QUOTAS_KIND, part_at
from webhook.policy.yaml_lines import YamlNode
from webhook.quota.quotas import QuotaScope
from webhook.rules import gpu_quota
from webhook.rules.rule import Mode

POTS_PATH: KeyPath = ("spec", "pots")


def read_pots(
    path: str, source: bytes, default: Mapping[str, YamlNode], faults: Faults, accelerators: Accelerators = BUILT_IN
) -> Pots:
    """The pots of the file shown in errors as `path`, but for disabled and faulty ones.

    `default` are the settings of `_default.yaml` by rule, as they were read, `accelerators` its names of GPUs.
    """
    root = read_document(path, source, QUOTAS_KIND, _null_fault, faults)
    if root is None:
        return NO_POTS
    read_head(root, QuotasFile, quotas_schema(), faults)
    check_names_differ(root, POTS_PATH, faults)
    listed = mapping_at(root, POTS_PATH[:-1]).get("pots")
    inherited = _inherited(default.get(gpu_quota.RULE.key))
    pots = {}
    for index, node in enumerate(listed.value if listed is not None and isinstance(listed.value, list) else ()):
        pot = merge(YamlNode(inherited, node.file, node.line), node)
        settings = _settings(pot, (path, index), faults, accelerators) if isinstance(node.value, dict) else None
        if settings is not None and settings.mode is not Mode.DISABLED:
            pots[settings.name] = (_bound(settings, node.line), pot.plain())
    ordered = [pots[name] for name in sorted(pots)]
    return Pots(tuple(quota for quota, _ in ordered), tuple(written for _, written in ordered))


def _bound(pot: PotSettings, line: int) -> BoundQuota:
    return BoundQuota.of(QuotaScope.POT, pot.name, tuple(dict.fromkeys(pot.namespaces)), pot, QUOTAS_FILE, line)


def _inherited(rule: YamlNode | None) -> dict[str, YamlNode]:
    """What a pot takes over from the default's rule."""
    written = rule.value if rule is not None and isinstance(rule.value, dict) else {}
    return {key: written[key] for key in INHERITED if key in written}


def _settings(pot: YamlNode, place: tuple[str, int], faults: Faults, accelerators: Accelerators) -> PotSettings | None:
    """The pot at `place`: a path, and which of its pots it is."""
    path, index = place
    context = {CONTEXT: accelerators}
    try:
        return PotSettings.model_validate_json(json.dumps(pot.plain()), by_alias=True, by_name=False, context=context)
    except ValidationError as error:
        for detail in details_of(error):
            _record(pot, index, path, detail, faults)
    return None


def _record(pot: YamlNode, index: int, path: str, detail: ErrorDetails, faults: Faults) -> None:
    """Blame the file that wrote the value; what `_default.yaml` wrote stands below its rule."""
    key, node = locate(pot, detail["loc"], detail["type"] == "missing")
    message = message_for(detail, part_at(quotas_schema(), (*POTS_PATH, index)), key, node)
    place = (*POTS_PATH, index) if node.file == path else (*RULES_PATH, gpu_quota.RULE.key)
    faults.add(node.file, node.line, (*place, *key), message)


def _null_fault(path: KeyPath) -> str:
    if path == POTS_PATH:
        return "is empty; write a list, or [] for no pots"
    if path[:2] == POTS_PATH and any(key in INHERITED for key in path[3:4]):
        return f"is empty; write a value, or remove the line to inherit it from gpuQuota of {DEFAULT_FILE}"
    return "is empty; write a value, or remove the line"
