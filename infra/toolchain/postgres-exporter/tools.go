//go:build tools

package tools

import _ "github.com/prometheus-community/postgres_exporter/cmd/postgres_exporter"
