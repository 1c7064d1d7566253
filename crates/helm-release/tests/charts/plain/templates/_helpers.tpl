{{- define "plain.name" -}}{{ .Release.Name }}-{{ .Chart.Name }}{{- end -}}
