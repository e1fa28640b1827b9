{{/* Names of everything: the release's own, so that two of them fit in one namespace. */}}
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

{{/* The servers of the bus, each by its own name: one that is lost is passed over at once. */}}
{{- define "retake.busURL" -}}
{{- if .Values.nats.enabled -}}
{{- $servers := list -}}
{{- range $i := until (int .Values.nats.replicas) -}}
{{- $servers = append $servers (printf "tls://%s-nats-%d.%s-nats.%s.svc:4222" (include "retake.name" $) $i (include "retake.name" $) $.Release.Namespace) -}}
{{- end -}}
{{- join "," $servers -}}
{{- else -}}
{{- required "nats.url: without a server of our own (nats.enabled=false) name the one that is there" .Values.nats.url -}}
{{- end -}}
{{- end }}

{{/* containers.egress, a word or a list. */}}
{{- define "retake.egress" -}}
{{- if kindIs "slice" .Values.worker.egress }}{{ join "," .Values.worker.egress }}{{ else }}{{ .Values.worker.egress }}{{ end -}}
{{- end }}

{{/* What the restricted level of the pod security standards asks of a pod, and of a container. */}}
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

{{/* Spread over nodes where there are some. */}}
{{- define "retake.apart" -}}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector: {matchLabels: {app.kubernetes.io/instance: {{ .root.Release.Name }}, app.kubernetes.io/component: {{ .component }}}}
{{- end }}
