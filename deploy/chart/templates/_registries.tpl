{{/* The files that say which registries may be asked. */}}
{{- define "gpu-policy.registries" -}}
{{- $spec := dict "presets" (.Values.registries.presets | default list) "registries" (.Values.registries.extra | default list) -}}
{{- $list := dict "apiVersion" "gpupolicy.dev/v1alpha1" "kind" "Registries" "spec" $spec -}}
{{- merge (dict "registries.yaml" (toYaml $list)) (.Values.registries.authorities | default dict) | toYaml }}
{{- end }}

{{/* The ports of registries, as numbers: those of the values, and those that hosts of `extra` name or imply. */}}
{{- define "gpu-policy.registryPorts" -}}
{{- $ports := list -}}
{{- range .Values.networkPolicy.egress.registryPorts }}{{ $ports = append $ports (int .) }}{{ end -}}
{{- range .Values.registries.extra -}}
{{- $hosts := concat (list .host) (.tokenHosts | default list) (.blobHosts | default list) -}}
{{- range $hosts }}{{ with regexFind ":[0-9]+$" . }}{{ $ports = append $ports (trimPrefix ":" . | int) }}{{ end }}{{ end -}}
{{- if and .plainHTTP (not (regexMatch ":[0-9]+$" .host)) }}{{ $ports = append $ports 80 }}{{ end -}}
{{- end -}}
{{- uniq $ports | toYaml -}}
{{- end }}
