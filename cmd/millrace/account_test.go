package main

import (
	"net/http/httptest"
	"testing"

	"github.com/millrace/millrace/agentproto/toolserver"
	"github.com/millrace/millrace/internal/exampletools/account"
	"github.com/millrace/millrace/internal/idp"
)

// startAccount starts the account example server with an OAuth provider in this process, because
// the command has neither. It returns the server's URL.
func startAccount(t *testing.T) string {
	t.Helper()
	provider, err := idp.Start(idp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { provider.Close() })
	web := httptest.NewUnstartedServer(nil)
	url := "http://" + web.Listener.Addr().String()
	provider.RegisterRedirect(idp.DefaultClientID, url+"/oauth/callback/millrace")
	server, err := account.Open(account.Options{
		Server: toolserver.Options{PublicURL: url, Status: true, ProviderRootCAs: provider.CertPool()}, UserInfoURL: provider.UserInfoURL(),
		Provider: toolserver.OAuthProvider{
			ID: "millrace", AuthURL: provider.AuthURL(), TokenURL: provider.TokenURL(), ClientID: idp.DefaultClientID,
			Scopes: []string{"openid", "profile", "offline_access"}, Issuer: provider.Issuer(), RequireIssuer: true, Confirm: true,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	web.Config.Handler = server
	web.Start()
	t.Cleanup(func() {
		web.Close()
		_ = server.Close(t.Context()) // the test is over; ignore pending calls
	})
	return url
}
