// Package oauth2 stands in for what MinIO's console, which is left out, is told of identity providers.
package oauth2

type OpenIDPCfg map[string]ProviderConfig

type ProviderConfig struct {
	URL, DisplayName, ClientID, ClientSecret, HMACSalt, HMACPassphrase string
	Scopes, RedirectCallback, EndSessionEndpoint, RoleArn              string
	Userinfo, RedirectCallbackDynamic                                  bool
}
