{{/* What follows from the cluster's version and APIs. Answers are "true" or empty. */}}

{{/* (list root "1.29"): whether the cluster is of that version or newer. */}}
{{- define "gpu-policy.isAtLeast" -}}
{{- if semverCompare (printf ">=%s.0-0" (last .)) ((first .).Values.kubeVersion | default (first .).Capabilities.KubeVersion.Version) }}true{{ end -}}
{{- end }}

{{/* (list root value): a value of auto asks whether the cluster has the Prometheus operator's API. */}}
{{- define "gpu-policy.isMonitored" -}}
{{- $root := first . -}}
{{- $wanted := last . -}}
{{- if eq (toString $wanted) "auto" -}}
{{- if $root.Capabilities.APIVersions.Has "monitoring.coreos.com/v1" }}true{{ end -}}
{{- else if $wanted }}true{{ end -}}
{{- end }}

{{/* (list root phase): Fail or Ignore. */}}
{{- define "gpu-policy.failurePolicy" -}}
{{- $root := first . -}}
{{- if has (last .) (list "workloads" "policies" "drivers") -}}
Ignore
{{- else -}}
{{- $phase := ternary "validate" (last .) (eq (last .) "claims") -}}
{{- (get $root.Values.webhook $phase).failurePolicy | default "Fail" -}}
{{- end -}}
{{- end }}

{{/* Whether resource claims are judged and counted when they are created; auto asks whether the cluster has them. */}}
{{- define "gpu-policy.hasResourceClaims" -}}
{{- $wanted := .Values.resourceClaims.enabled -}}
{{- if eq (toString $wanted) "auto" -}}
{{- $versions := .Capabilities.APIVersions -}}
{{- if or ($versions.Has "resource.k8s.io/v1") ($versions.Has "resource.k8s.io/v1beta2") ($versions.Has "resource.k8s.io/v1beta1") }}true{{ end -}}
{{- else if $wanted }}true{{ end -}}
{{- end }}

{{- define "gpu-policy.hasAdmissionPolicies" -}}
{{- $wanted := .Values.admissionPolicies.enabled -}}
{{- if eq (toString $wanted) "auto" -}}
{{- include "gpu-policy.isAtLeast" (list . "1.30") -}}
{{- else if $wanted }}true{{ end -}}
{{- end }}
