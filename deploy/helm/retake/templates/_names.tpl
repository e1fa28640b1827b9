{{/* All names contain the release's name, so that two releases fit in one namespace. */}}
{{- define "retake.name" -}}{{ .Release.Name }}{{- end }}

{{- define "retake.select" -}}
app.kubernetes.io/name: retake
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "retake.labels" -}}
{{ include "retake.select" . }}
app.kubernetes.io/part-of: retake
{{- end }}

{{- define "retake.claim" -}}{{ .Values.storage.existingClaim | default (printf "%s-shared" (include "retake.name" .)) }}{{- end }}

{{/* The URLs of the bus servers. Each server has a separate name, so that clients skip a lost server at once. */}}
{{- define "retake.busURL" -}}
{{- if .Values.nats.enabled -}}
{{- $servers := list -}}
{{- range $i := until (int .Values.nats.replicas) -}}
{{- $servers = append $servers (printf "tls://%s-nats-%d.%s-nats.%s.svc:4222" (include "retake.name" $) $i (include "retake.name" $) $.Release.Namespace) -}}
{{- end -}}
{{- join "," $servers -}}
{{- else -}}
{{- required "nats.url: set the URL of an existing server, because nats.enabled is false" .Values.nats.url -}}
{{- end -}}
{{- end }}

{{/* containers.egress: a word or a list. */}}
{{- define "retake.egress" -}}
{{- if kindIs "slice" .Values.worker.egress }}{{ join "," .Values.worker.egress }}{{ else }}{{ .Values.worker.egress }}{{ end -}}
{{- end }}

{{/* Settings for pods and containers, as required by the restricted pod security standard. */}}
{{- define "retake.podSecurity" -}}
runAsNonRoot: true
runAsUser: {{ .Values.director.user }}
runAsGroup: {{ .Values.director.user }}
fsGroup: {{ .Values.director.user }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "retake.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* Spread pods over nodes if there are several. */}}
{{- define "retake.apart" -}}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector: {matchLabels: {app.kubernetes.io/instance: {{ .root.Release.Name }}, app.kubernetes.io/component: {{ .component }}}}
{{- end }}
