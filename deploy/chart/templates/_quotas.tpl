{{/* What refusals say: more where callers are authenticated. */}}
{{- define "gpu-policy.quotaNames" -}}
{{- with .Values.certificates.clientCA -}}
{{- $.Values.quota.names | default (ternary "own" "none" (or (ne .configMap "") (ne .secret ""))) -}}
{{- end -}}
{{- end }}
{{/* The schema of a limit and how much of it is in use; the argument describes it. */}}
{{- define "gpu-policy.quotaAmount" -}}
description: {{ . }}
type: object
properties:
  name:
    description: The model or the resource.
    type: string
  hard:
    description: What may be in use.
    type: string
  used:
    description: What is in use, also beyond hard where that was lowered.
    type: string
  byClaims:
    description: The part of used that resource claims count; missing where none does.
    type: string
  units:
    description: How many units of GPU resources, and claimed devices, used is; missing where each is a whole GPU.
    type: string
  gated:
    description: What pods with scheduling gates will use once they start; missing where there are none.
    type: string
{{- end }}
