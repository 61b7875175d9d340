{{- define "hourhand.labels" -}}
app.kubernetes.io/name: {{ .Release.Name }}
{{- end }}

{{- define "hourhand.nodeLabels" -}}
app.kubernetes.io/name: {{ .Release.Name }}
app.kubernetes.io/component: node
{{- end }}

{{- define "hourhand.podSecurity" -}}
runAsNonRoot: true
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "hourhand.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop:
    - ALL
{{- end }}

{{- define "hourhand.environment" -}}
- name: HOURHAND_CONFIG
  value: /etc/hourhand/hourhand.toml
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "hourhand.image" -}}
image: {{ .Values.image }}
{{- with .Values.imagePullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
{{- end }}
