{{/* Values that contradict each other; the schema has refused what is wrong by itself. */}}
{{- define "gpu-policy.checks" -}}
{{- with .Values -}}
{{- if and (eq .certificates.source "existing") (not .certificates.existing.secretName) -}}
{{- fail "certificates.source is existing, but certificates.existing.secretName is empty; name the Secret, or choose self or certManager" -}}
{{- end -}}
{{- if and (ne .certificates.source "existing") (or .certificates.existing.secretName .certificates.existing.caBundle) -}}
{{- fail (printf "certificates.existing is set, but certificates.source is %s; set it to existing, or leave both values empty" .certificates.source) -}}
{{- end -}}
{{- if and (ne .certificates.source "certManager") .certificates.certManager.issuerRef -}}
{{- fail (printf "certificates.certManager.issuerRef is set, but certificates.source is %s; set it to certManager, or leave issuerRef empty" .certificates.source) -}}
{{- end -}}
{{- if and .certificates.clientCA.configMap .certificates.clientCA.secret -}}
{{- fail "certificates.clientCA names a configMap and a secret; name one of them" -}}
{{- end -}}
{{- if and .certificates.clientNames (not .certificates.clientCA.configMap) (not .certificates.clientCA.secret) -}}
{{- fail "certificates.clientNames is set without certificates.clientCA, so no client's name could be verified; name a configMap or a secret there" -}}
{{- end -}}
{{- if not (or .policies.defaults .policies.inline .policies.configMaps) -}}
{{- fail "there are no policies, and a replica without policies never gets ready; set policies.defaults, policies.inline or policies.configMaps" -}}
{{- end -}}
{{- if and .registries.enabled (not .registries.presets) (not .registries.extra) -}}
{{- fail "registries.enabled is set, but no registry may be asked; name some in registries.presets or registries.extra" -}}
{{- end -}}
{{- if and .registries.credentialsSecret (not .registries.enabled) -}}
{{- fail "registries.credentialsSecret is set, but registries.enabled is not; set both, or neither" -}}
{{- end -}}
{{- range .registries.extra -}}
{{- if has .host ($.Values.registries.presets | default list) -}}
{{- fail (printf "registries.extra lists %s, which is in registries.presets too; keep one of the two" .host) -}}
{{- end -}}
{{- if and .caFile (not (hasKey ($.Values.registries.authorities | default dict) .caFile)) -}}
{{- fail (printf "registries.extra names caFile %s for %s, which is not in registries.authorities; add it there" .caFile .host) -}}
{{- end -}}
{{- end -}}
{{- range .workloads.extraRules -}}
{{- $group := .group -}}
{{- range .resources -}}
{{- $told := printf "workloads.extraRules has the resource %s of group %s" (quote .) (quote $group) -}}
{{- if or (contains "*" .) (contains "*" $group) -}}
{{- fail (printf "%s; name each resource of each group, since a webhook for all of them would be asked about every lease and event" $told) -}}
{{- end -}}
{{- if contains "/" . -}}
{{- fail (printf "%s, which is a subresource; name resources alone, since scale and status say nothing new of pods" $told) -}}
{{- end -}}
{{- if and (eq . "pods") (not $group) -}}
{{- fail (printf "%s; pods are judged by an entry of their own, so remove it" $told) -}}
{{- end -}}
{{- if not (regexMatch "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" .) -}}
{{- fail (printf "%s, which is no name of a resource; write its plural in lower case, as kubectl api-resources has it" $told) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range .extraArgs -}}
{{- $flag := first (splitList "=" .) -}}
{{- if contains (printf "- %s=" $flag) (include "gpu-policy.arguments" $) -}}
{{- fail (printf "extraArgs has %s, which the chart sets from another value; set that one" $flag) -}}
{{- end -}}
{{- end -}}
{{- if eq (int .port) (int .metrics.port) -}}
{{- fail (printf "port and metrics.port are both %d; metrics need one of their own" (int .port)) -}}
{{- end -}}
{{- if and .hostNetwork (has 10250 (list (int .port) (int .metrics.port))) -}}
{{- $which := ternary "port" "metrics.port" (eq (int .port) 10250) -}}
{{- fail (printf "hostNetwork is set and %s is 10250, which the kubelet has on every node; choose another port" $which) -}}
{{- end -}}
{{- end -}}
{{- end }}
