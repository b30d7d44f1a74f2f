{{/* Keeps everybody but administrators from what the replicas decide by. */}}
{{- define "gpu-policy.guard" -}}
{{- $name := include "gpu-policy.name" . -}}
{{- $namespace := .Release.Namespace -}}
{{- $labels := include "gpu-policy.labels" (list .) -}}
{{- $administrators := .Values.admissionPolicies.administrators -}}
{{- $kept := list "policies" "registration" "registries" "images" "audit" -}}
{{- $configMaps := list -}}
{{- range $kept }}{{ $configMaps = append $configMaps (printf "%s-%s" $name .) }}{{ end -}}
{{- $configMaps = concat $configMaps (.Values.policies.configMaps | default list) -}}
{{- with .Values.certificates.clientCA.configMap }}{{ $configMaps = append $configMaps . }}{{ end -}}
{{- $secrets := list (include "gpu-policy.certificateSecret" .) -}}
{{- with .Values.certificates.clientCA.secret }}{{ $secrets = append $secrets . }}{{ end -}}
{{- with .Values.registries.credentialsSecret }}{{ $secrets = append $secrets . }}{{ end -}}
{{- $users := list (printf "system:serviceaccount:%s:%s" $namespace $name) -}}
{{- if .Values.audit.enabled }}{{ $users = append $users (printf "system:serviceaccount:%s:%s-audit" $namespace $name) }}{{ end -}}
{{- $users = concat $users (list
  "system:kube-controller-manager"
  "system:serviceaccount:kube-system:generic-garbage-collector"
  "system:serviceaccount:kube-system:namespace-controller"
) -}}
{{- if eq .Values.certificates.source "certManager" -}}
{{- $users = concat $users (list
  "system:serviceaccount:cert-manager:cert-manager"
  "system:serviceaccount:cert-manager:cert-manager-cainjector"
) -}}
{{- end -}}
{{- $users = concat $users ($administrators.users | default list) | uniq -}}
{{- $groups := concat (list "system:masters") ($administrators.groups | default list) | uniq -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: {{ $name }}-guard
  labels: {{- $labels | nindent 4 }}
spec:
  failurePolicy: Fail
  matchConstraints:
    namespaceSelector:
      matchLabels: {kubernetes.io/metadata.name: {{ $namespace | quote }}}
    resourceRules:
      - apiGroups: [admissionregistration.k8s.io]
        apiVersions: ["*"]
        operations: [CREATE, UPDATE, DELETE]
        resources: [mutatingwebhookconfigurations, validatingwebhookconfigurations]
      - apiGroups: [""]
        apiVersions: ["*"]
        operations: [CREATE, UPDATE, DELETE]
        resources: [configmaps, secrets]
  matchConditions:
    - name: by-no-administrator
      expression: >-
        !(request.userInfo.username in ['{{ join "', '" $users }}']) &&
        !request.userInfo.groups.exists(g, g in ['{{ join "', '" $groups }}'])
  variables:
    - name: name
      expression: "(object == null ? oldObject : object).metadata.name"
  validations:
    - expression: >-
        request.resource.resource == 'configmaps' ? !(variables.name in ['{{ join "', '" $configMaps }}']) &&
        !variables.name.startsWith('gpu-quota.') : request.resource.resource == 'secrets' ?
        !(variables.name in ['{{ join "', '" $secrets }}']) : variables.name != '{{ $name }}'
      messageExpression: >-
        request.resource.resource + ' ' + variables.name + ' belongs to gpu-policy, and only its administrators change
        it: admissionPolicies.administrators of its Helm release names them'
      message: this belongs to gpu-policy, and only its administrators change it
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ $name }}-guard
  labels: {{- $labels | nindent 4 }}
spec:
  policyName: {{ $name }}-guard
  validationActions: [Deny]
{{- end }}
