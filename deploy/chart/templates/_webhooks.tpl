{{/* Both webhook configurations as they are installed; the replicas compare the live ones with the same text. */}}
{{- define "gpu-policy.registration" -}}
{{ include "gpu-policy.configuration" (list . "mutate" "MutatingWebhookConfiguration") }}
---
{{ include "gpu-policy.configuration" (list . "validate" "ValidatingWebhookConfiguration") }}
{{- end }}

{{/* (list root phase kind) */}}
{{- define "gpu-policy.configuration" -}}
{{- $root := first . -}}
{{- $annotations := $root.Values.webhook.annotations -}}
{{- if eq $root.Values.certificates.source "certManager" -}}
{{- $certificate := printf "%s/%s" $root.Release.Namespace (include "gpu-policy.name" $root) -}}
{{- $annotations = merge (dict "cert-manager.io/inject-ca-from" $certificate) $annotations -}}
{{- end -}}
apiVersion: admissionregistration.k8s.io/v1
kind: {{ last . }}
metadata:
  name: {{ include "gpu-policy.name" $root }}
  labels: {{- include "gpu-policy.labels" (list $root $root.Values.webhook.labels) | nindent 4 }}
  {{- with $annotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
webhooks:
  - {{ include "gpu-policy.webhook" (list $root (index . 1)) | indent 4 | trim }}
{{- end }}

{{/* (list root phase): the one entry of a configuration. */}}
{{- define "gpu-policy.webhook" -}}
{{- $root := first . -}}
{{- $phase := last . -}}
name: {{ $phase }}.gpupolicy.dev
admissionReviewVersions: [v1]
clientConfig:
  {{- with $root.Values.webhook.url }}
  url: {{ trimSuffix "/" . }}/{{ $phase }}
  {{- else }}
  service:
    namespace: {{ $root.Release.Namespace | quote }}
    name: {{ include "gpu-policy.name" $root }}
    path: /{{ $phase }}
    port: 443
  {{- end }}
  {{- with $root.Values.certificates.existing.caBundle }}
  caBundle: {{ b64enc . }}
  {{- end }}
failurePolicy: {{ include "gpu-policy.failurePolicy" . }}
matchPolicy: Equivalent
sideEffects: {{ ternary "NoneOnDryRun" "None" (and (eq $phase "validate") $root.Values.quota.enabled) }}
timeoutSeconds: {{ (get $root.Values.webhook $phase).timeoutSeconds }}
namespaceSelector:
  matchExpressions:
    - key: kubernetes.io/metadata.name
      operator: NotIn
      values: {{- concat (list "kube-system" $root.Release.Namespace) $root.Values.webhook.namespaceSelector.exclude | uniq | toYaml | nindent 8 }}
    {{- range $root.Values.webhook.namespaceSelector.matchExpressions }}
    - {{ merge (dict "key" "kubernetes.io/metadata.name") . | toYaml | indent 6 | trim }}
    {{- end }}
{{ include (printf "gpu-policy.rules.%s" $phase) $root }}
{{- if include "gpu-policy.hasMatchConditions" $root }}
matchConditions: {{- get ($root.Files.Get "files/match-conditions.yaml" | fromYaml) $phase | toYaml | nindent 2 }}
{{- end }}
{{- end }}

{{/* Pods, and every workload kind that holds a template of them: templates are repaired where their author sees it. */}}
{{- define "gpu-policy.rules.mutate" -}}
reinvocationPolicy: IfNeeded
rules:
  - apiGroups: [""]
    apiVersions: ["*"]
    resources: [pods]
    operations: [CREATE]
    scope: Namespaced
  - apiGroups: [""]
    apiVersions: ["*"]
    resources: [podtemplates, replicationcontrollers]
    operations: [CREATE, UPDATE]
    scope: Namespaced
  - apiGroups: [apps]
    apiVersions: ["*"]
    resources: [daemonsets, deployments, replicasets, statefulsets]
    operations: [CREATE, UPDATE]
    scope: Namespaced
  - apiGroups: [batch]
    apiVersions: ["*"]
    resources: [cronjobs, jobs]
    operations: [CREATE, UPDATE]
    scope: Namespaced
{{- end }}

{{/* Pods however they change. DELETE is never asked about. */}}
{{- define "gpu-policy.rules.validate" -}}
rules:
  - apiGroups: [""]
    apiVersions: ["*"]
    resources: [pods]
    operations: [CREATE, UPDATE]
    scope: Namespaced
  - apiGroups: [""]
    apiVersions: ["*"]
    resources: [pods/ephemeralcontainers, pods/resize]
    operations: [UPDATE]
    scope: Namespaced
{{- end }}
