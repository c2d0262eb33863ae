// Package api stands in for MinIO's console, which is left out: MINIO_BROWSER is off here.
package api

import (
	"errors"

	"github.com/minio/console/api/operations"
	"github.com/minio/console/pkg/auth/idp/oauth2"
)

var (
	SwaggerJSON, FlatSwaggerJSON                            = []byte(`{}`), []byte(`{}`)
	GlobalRootCAs, GlobalPublicCerts, GlobalTLSCertsManager any
	GlobalMinIOConfig                                       MinIOConfig
	LogInfo, LogError                                       func(string, ...any)
	Hostname, Port, TLSPort                                 string
)

type MinIOConfig struct{ OpenIDProviders oauth2.OpenIDPCfg }

type Server struct {
	Host             string
	Port, TLSPort    int
	EnabledListeners []string
}

func NewServer(*operations.ConsoleAPI) *Server { return &Server{} }

func (*Server) ConfigureAPI()   {}
func (*Server) Shutdown() error { return nil }
func (*Server) Serve() error {
	return errors.New("this build of MinIO has no console: set MINIO_BROWSER=off")
}
