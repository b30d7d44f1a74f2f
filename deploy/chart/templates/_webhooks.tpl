{{/* Both webhook configurations as they are installed; the replicas compare the live ones with the same text. */}}
{{- define "gpu-policy.registration" -}}
{{- $validating := list "validate" -}}
{{- if .Values.workloads.enabled }}{{ $validating = append $validating "workloads" }}{{ end -}}
{{- if .Values.policies.checkAtApply }}{{ $validating = append $validating "policies" }}{{ end -}}
{{- if include "gpu-policy.hasResourceClaims" . }}{{ $validating = append $validating "claims" }}{{ end -}}
{{- if .Values.drivers.enabled }}{{ $validating = append $validating "drivers" }}{{ end -}}
{{ include "gpu-policy.configuration" (list . (list "mutate") "MutatingWebhookConfiguration") }}
---
{{ include "gpu-policy.configuration" (list . $validating "ValidatingWebhookConfiguration") }}
{{- end }}

{{/* (list root phases kind) */}}
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
  {{- range index . 1 }}
  - {{ include "gpu-policy.webhook" (list $root .) | indent 4 | trim }}
  {{- end }}
{{- end }}

{{/* (list root phase): an entry of a configuration. No pod depends on what is said about workloads and policies. */}}
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
sideEffects: {{ ternary "NoneOnDryRun" "None" (or (and (has $phase (list "validate" "claims")) $root.Values.quota.enabled) (and (eq $phase "validate") $root.Values.warnings.events)) }}
{{- if eq $phase "policies" }}
timeoutSeconds: 5
{{ include "gpu-policy.selection.policies" $root }}
{{- else if eq $phase "drivers" }}
timeoutSeconds: {{ $root.Values.drivers.timeoutSeconds }}
rules:
  - apiGroups: [nvidia.com]
    apiVersions: ["*"]
    resources: [clusterpolicies, nvidiadrivers]
    operations: [CREATE, UPDATE]
    scope: Cluster
{{- else }}
{{- $waits := get $root.Values.webhook (ternary "validate" $phase (eq $phase "claims")) }}
timeoutSeconds: {{ (ternary $root.Values.workloads $waits (eq $phase "workloads")).timeoutSeconds }}
{{ include "gpu-policy.selection" . }}
{{- end }}
{{- end }}

{{/* (list root phase): what of pods and of what makes them an entry is asked about. */}}
{{- define "gpu-policy.selection" -}}
{{- $root := first . -}}
{{- $phase := last . -}}
namespaceSelector:
  matchExpressions:
    - key: kubernetes.io/metadata.name
      operator: NotIn
      values: {{- include "gpu-policy.excludedNamespaces" $root | nindent 8 }}
    {{- range $root.Values.webhook.namespaceSelector.matchExpressions }}
    - {{ merge (dict "key" "kubernetes.io/metadata.name") . | toYaml | indent 6 | trim }}
    {{- end }}
{{ include (printf "gpu-policy.rules.%s" $phase) $root }}
{{- $conditions := include "gpu-policy.matchConditions" $root | fromYaml }}
{{- if $root.Values.webhook.nvidiaIsDefaultRuntime }}{{ $conditions = $conditions.nvidiaIsDefaultRuntime }}{{ end }}
matchConditions: {{- get $conditions $phase | toYaml | nindent 2 }}
{{- end }}

{{/* Names of namespaces whose pods nobody asks about. */}}
{{- define "gpu-policy.excludedNamespaces" -}}
{{- $names := concat (list "kube-system" .Release.Namespace) .Values.webhook.namespaceSelector.exclude -}}
{{- range .Values.webhook.namespaceSelector.matchExpressions -}}
{{- if eq .operator "NotIn" }}{{ $names = concat $names .values }}{{ end -}}
{{- end -}}
{{- uniq $names | toYaml -}}
{{- end }}

{{/* ConfigMaps of this namespace that the replicas mount as policies, by name. */}}
{{- define "gpu-policy.selection.policies" -}}
namespaceSelector:
  matchExpressions:
    - key: kubernetes.io/metadata.name
      operator: In
      values: [{{ .Release.Namespace | quote }}]
matchConditions:
  - name: only-policies
    expression: object.metadata.name in ['{{ include "gpu-policy.policyConfigMaps" . | fromYamlArray | join "', '" }}']
rules:
  - apiGroups: [""]
    apiVersions: ["*"]
    resources: [configmaps]
    operations: [CREATE, UPDATE]
    scope: Namespaced
{{- end }}

{{/* The conditions of all phases; names of accelerators.extra come before those that everybody knows. */}}
{{- define "gpu-policy.matchConditions" -}}
{{- $names := list -}}
{{- $domains := list -}}
{{- range .Values.accelerators.extra -}}
{{- $name := . -}}
{{- if kindIs "map" . -}}
{{- $name = .name -}}
{{- end -}}
{{- $domains = append $domains (printf "'%s/'" (splitList "/" $name | first)) -}}
{{- $names = append $names ($name | regexQuoteMeta | replace "\\*" ".*" | replace "\\?" ".") -}}
{{- end -}}
{{- $text := .Files.Get "files/match-conditions.yaml" -}}
{{- $pattern := "r'^(nvidia\\.com/gpu|" -}}
{{- $domain := "['nvidia.com/', " -}}
{{- if not (and (contains $pattern $text) (contains $domain $text)) -}}
{{- fail "files/match-conditions.yaml has no list of names to which accelerators.extra could be added; write it again" -}}
{{- end -}}
{{- if $names -}}
{{- $text = $text | replace $pattern (printf "r'^(%s|%s" (join "|" $names) (trimPrefix "r'^(" $pattern)) -}}
{{- $text = $text | replace $domain (printf "[%s, %s" ($domains | uniq | join ", ") (trimPrefix "[" $domain)) -}}
{{- end -}}
{{- if .Values.webhook.sendTolerateAll -}}
{{- $isWithoutKey := "spec.tolerations.exists(t, !has(t.key)) ? " -}}
{{- if not (contains (print $isWithoutKey "false") $text) -}}
{{- fail "files/match-conditions.yaml leaves out no pods that tolerate everything; write it again" -}}
{{- end -}}
{{- $text = $text | replace (print $isWithoutKey "false") (print $isWithoutKey "true") -}}
{{- end -}}
{{- $text -}}
{{- end }}

{{/* Pods alone: who changes what a GitOps controller applied, fights it. */}}
{{- define "gpu-policy.rules.mutate" -}}
reinvocationPolicy: IfNeeded
rules:
  - apiGroups: [""]
    apiVersions: ["*"]
    resources: [pods]
    operations: [CREATE]
    scope: Namespaced
{{- end }}

{{/* Every kind whose pods are known, templates of resource claims, and kinds that the values name. Neither status nor scale is ever asked about. */}}
{{- define "gpu-policy.rules.workloads" -}}
rules:
  {{- range ($.Files.Get "files/workloads.yaml" | fromYaml).rules }}
  - apiGroups: {{ toJson .apiGroups }}
    apiVersions: ["*"]
    resources: {{ toJson .resources }}
    operations: [CREATE, UPDATE]
    scope: {{ .scope }}
  {{- end }}
  - apiGroups: [resource.k8s.io]
    apiVersions: ["*"]
    resources: [resourceclaimtemplates]
    operations: [CREATE]
    scope: Namespaced
  {{- range .Values.workloads.extraRules }}
  - apiGroups: [{{ .group | quote }}]
    apiVersions: ["*"]
    resources: {{ toJson .resources }}
    operations: [CREATE, UPDATE]
    scope: "*"
  {{- end }}
{{- end }}

{{/* Resource claims by whoever makes them: people, and Kubernetes for the templates that pods name. Specs never change. */}}
{{- define "gpu-policy.rules.claims" -}}
rules:
  - apiGroups: [resource.k8s.io]
    apiVersions: ["*"]
    resources: [resourceclaims]
    operations: [CREATE]
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
