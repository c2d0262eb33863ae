// Package certs stands in for where MinIO's console, which is left out, has its certificates.
package certs

type ConfigDir struct{ Path string }

var GlobalCertsDir, GlobalCertsCADir *ConfigDir
