{{/* The name of everything: the release's, with the chart's where that says something else. */}}
{{- define "gpu-policy.name" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | replace "." "-" | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" (replace "." "-" .Release.Name) .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{/* What the Service, the Deployment and the others select the pods by; never to be changed. */}}
{{- define "gpu-policy.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* Labels of an object: (list root maps...); of two maps with one key the first wins, and the release's own first. */}}
{{- define "gpu-policy.labels" -}}
{{- $root := first . -}}
{{- $own := include "gpu-policy.selectorLabels" $root | fromYaml -}}
{{- $version := dict "app.kubernetes.io/version" $root.Chart.AppVersion -}}
{{- $labels := merge (dict) $own $version -}}
{{- range rest . }}{{ $labels = merge $labels . }}{{ end -}}
{{- merge $labels $root.Values.commonLabels | toYaml -}}
{{- end }}

{{/* The names under which the API server, and Prometheus, reach the replicas. */}}
{{- define "gpu-policy.host" -}}
{{ include "gpu-policy.name" . }}.{{ .Release.Namespace }}.svc
{{- end }}

{{- define "gpu-policy.hosts" -}}
{{- $hosts := list (include "gpu-policy.host" .) -}}
{{- if .Values.webhook.url -}}
{{- $hosts = append $hosts (get (urlParse .Values.webhook.url) "hostname" | trimPrefix "[" | trimSuffix "]") -}}
{{- end -}}
{{- uniq $hosts | toYaml -}}
{{- end }}

{{- define "gpu-policy.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end }}

{{/* The ConfigMaps that make the directory of policies; of two that hold the same file the later wins. */}}
{{- define "gpu-policy.policyConfigMaps" -}}
{{- $names := list -}}
{{- if or .Values.policies.defaults .Values.policies.inline }}{{ $names = append $names (printf "%s-policies" (include "gpu-policy.name" .)) }}{{ end -}}
{{- concat $names (.Values.policies.configMaps | default list) | uniq | toYaml -}}
{{- end }}

{{/* The Secret that the served certificate is in. Each source has its own, so that none is handed from one owner to another. */}}
{{- define "gpu-policy.certificateSecret" -}}
{{- $source := .Values.certificates.source -}}
{{- if eq $source "existing" -}}
{{ .Values.certificates.existing.secretName }}
{{- else if eq $source "certManager" -}}
{{ include "gpu-policy.name" . }}-cert-manager
{{- else -}}
{{ include "gpu-policy.name" . }}-tls
{{- end -}}
{{- end }}
