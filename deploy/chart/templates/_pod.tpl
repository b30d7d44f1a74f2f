{{/* What the chart asks of `gpu-policy serve`. */}}
{{- define "gpu-policy.arguments" -}}
- serve
- --policies=/etc/gpu-policy/policies
- --registration=/etc/gpu-policy/registration/webhooks.yaml
{{- if eq .Values.certificates.source "self" }}
- --certificate-secret={{ .Release.Namespace }}/{{ include "gpu-policy.certificateSecret" . }}
- --certificate-dir=/run/gpu-policy/tls
{{- range include "gpu-policy.hosts" . | fromYamlArray }}
- --certificate-name={{ . }}
{{- end }}
{{- else }}
- --cert=/etc/gpu-policy/tls/tls.crt
- --key=/etc/gpu-policy/tls/tls.key
{{- end }}
{{- with .Values.certificates }}
{{- if or .clientCA.configMap .clientCA.secret }}
- --client-ca=/etc/gpu-policy/client-ca/{{ .clientCA.key }}
{{- end }}
{{- range .clientNames }}
- {{ printf "--client-name=%s" . | quote }}
{{- end }}
{{- end }}
{{- if .Values.registries.enabled }}
- --registries=/etc/gpu-policy/registries/registries.yaml
- --image-results={{ .Release.Namespace }}/{{ include "gpu-policy.name" . }}-images
{{- if .Values.registries.credentialsSecret }}
- --registry-credentials=/etc/gpu-policy/registry-credentials/config.json
{{- end }}
{{- end }}
{{- if .Values.quota.enabled }}
- --quota-ledgers={{ .Release.Namespace }}
- --quota-in-flight-seconds={{ int64 .Values.quota.inFlightSeconds }}
- --quota-names={{ include "gpu-policy.quotaNames" . }}
{{- end }}
{{- if .Values.audit.enabled }}
- --audit-status={{ .Release.Namespace }}/{{ include "gpu-policy.name" . }}-audit
{{- end }}
{{- if .Values.policies.objects }}
- --policy-objects={{ .Release.Namespace }}
{{- end }}
{{- if .Values.warnings.events }}
- --warning-events
{{- end }}
- --port={{ .Values.port }}
- --metrics-port={{ int64 .Values.metrics.port }}
- --drain-seconds={{ .Values.drainSeconds }}
- --decision-seconds={{ .Values.decisionSeconds }}
- --log-level={{ .Values.logLevel }}
- --namespace-series={{ int64 .Values.namespaceSeries }}
{{- end }}

{{/* Volumes and mounts are of the same order. Whole directories only: the kubelet never updates a subPath. */}}
{{- define "gpu-policy.mounts" -}}
- {name: policies, mountPath: /etc/gpu-policy/policies, readOnly: true}
- {name: registration, mountPath: /etc/gpu-policy/registration, readOnly: true}
{{- if eq .Values.certificates.source "self" }}
- {name: tls, mountPath: /run/gpu-policy/tls}
{{- else }}
- {name: tls, mountPath: /etc/gpu-policy/tls, readOnly: true}
{{- end }}
{{- if or .Values.certificates.clientCA.configMap .Values.certificates.clientCA.secret }}
- {name: client-ca, mountPath: /etc/gpu-policy/client-ca, readOnly: true}
{{- end }}
{{- if .Values.registries.enabled }}
- {name: registries, mountPath: /etc/gpu-policy/registries, readOnly: true}
{{- if .Values.registries.credentialsSecret }}
- {name: registry-credentials, mountPath: /etc/gpu-policy/registry-credentials, readOnly: true}
{{- end }}
{{- end }}
- {name: tmp, mountPath: /tmp}
{{- end }}

{{- define "gpu-policy.policiesVolume" -}}
- name: policies
  projected:
    sources:
      {{- range include "gpu-policy.policyConfigMaps" . | fromYamlArray }}
      - configMap: {name: {{ . | quote }}}
      {{- end }}
{{- end }}

{{- define "gpu-policy.podSecurity" -}}
runAsNonRoot: true
{{- with .Values.runAsUser }}
runAsUser: {{ int64 . }}
runAsGroup: {{ int64 . }}
fsGroup: {{ int64 . }}
{{- end }}
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "gpu-policy.containerSecurity" -}}
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
readOnlyRootFilesystem: true
{{- end }}

{{- define "gpu-policy.volumes" -}}
{{- $name := include "gpu-policy.name" . -}}
{{ include "gpu-policy.policiesVolume" . }}
- name: registration
  configMap:
    name: {{ $name }}-registration
- name: tls
{{- if eq .Values.certificates.source "self" }}
  emptyDir:
    medium: Memory
    sizeLimit: 1Mi
{{- else }}
  secret:
    secretName: {{ include "gpu-policy.certificateSecret" . | quote }} # pods wait until it is there
    defaultMode: 0440
{{- end }}
{{- with .Values.certificates.clientCA.configMap }}
- name: client-ca
  configMap:
    name: {{ . | quote }}
{{- end }}
{{- with .Values.certificates.clientCA.secret }}
- name: client-ca
  secret:
    secretName: {{ . | quote }}
    items:
      - {key: {{ $.Values.certificates.clientCA.key }}, path: {{ $.Values.certificates.clientCA.key }}}
{{- end }}
{{- if .Values.registries.enabled }}
- name: registries
  configMap:
    name: {{ $name }}-registries
{{- with .Values.registries.credentialsSecret }}
- name: registry-credentials
  secret:
    secretName: {{ . | quote }} # pods wait until it is there
    defaultMode: 0440
    items:
      - {key: .dockerconfigjson, path: config.json}
{{- end }}
{{- end }}
- name: tmp
  emptyDir:
    medium: Memory
    sizeLimit: 16Mi
{{- end }}

{{- define "gpu-policy.placement" -}}
{{- $selector := dict "matchLabels" (include "gpu-policy.selectorLabels" . | fromYaml) -}}
affinity:
{{- with .Values.affinity }}
  {{- toYaml . | nindent 2 }}
{{- else }}
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector: {{- toYaml $selector | nindent 12 }}
{{- end }}
{{- with .Values.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- range . }}
  - {{ hasKey . "labelSelector" | ternary . (set (deepCopy .) "labelSelector" $selector) | toYaml | indent 4 | trim }}
  {{- end }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "gpu-policy.egressToApiServer" -}}
{{- with .Values.networkPolicy.egress -}}
# The API server.
- ports:
    {{- range .apiServerPorts }}
    - {port: {{ . }}, protocol: TCP}
    {{- end }}
  {{- with .apiServerCidrs }}
  to:
    {{- range . }}
    - ipBlock: {cidr: {{ quote . }}}
    {{- end }}
  {{- end }}
# DNS.
- ports:
    {{- range .dnsPorts }}
    - {port: {{ . }}, protocol: UDP}
    - {port: {{ . }}, protocol: TCP}
    {{- end }}
{{- end }}
{{- end }}
