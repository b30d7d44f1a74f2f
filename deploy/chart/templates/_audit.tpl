{{/* The namespaces that are audited are those whose pods the webhook looks at. */}}
{{- define "gpu-policy.auditedNamespaces" -}}
{{- $selector := .Values.webhook.namespaceSelector -}}
{{- $excluded := concat (list "kube-system" .Release.Namespace) $selector.exclude -}}
{{- $only := list -}}
{{- $isLimited := false -}}
{{- range $selector.matchExpressions -}}
{{- if eq .operator "NotIn" -}}
{{- $excluded = concat $excluded .values -}}
{{- else if $isLimited -}}
{{- $both := list -}}
{{- range .values }}{{ if has . $only }}{{ $both = append $both . }}{{ end }}{{ end -}}
{{- $only = $both -}}
{{- else -}}
{{- $only = .values -}}
{{- $isLimited = true -}}
{{- end -}}
{{- end -}}
{{- if $isLimited -}}
{{- $left := list -}}
{{- range $only }}{{ if not (has . $excluded) }}{{ $left = append $left . }}{{ end }}{{ end -}}
{{- if not $left -}}
{{- fail "audit.enabled is set, but webhook.namespaceSelector leaves no namespace to audit; set one of them otherwise" -}}
{{- end -}}
{{- range uniq $left }}
- --namespace={{ . }}
{{- end -}}
{{- else -}}
{{- range uniq $excluded }}
- --exclude-namespace={{ . }}
{{- end -}}
{{- end -}}
{{- end }}
