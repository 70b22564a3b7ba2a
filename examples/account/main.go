// Command account serves tools that need the user: two that need an authorization, and one that
// asks. It comes with an OAuth provider, in this process and for it alone, whose certificate is made
// at the start; a browser says so. In one terminal
//
//	go run ./examples/account
//
// and in another
//
//	echo '{"group_id": "t", "operation": "whoami", "user_id": "ada"}' | go run ./cmd/millrace run --tool http://127.0.0.1:8804 -
//
// prints an address. Log in there as ada, with the password lovelace. The last page shows two
// numbers, which the terminal asks for then: whoever was sent the address does not know them.
package main

import (
	"context"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"time"

	"github.com/millrace/millrace/agentproto/toolserver"
	"github.com/millrace/millrace/internal/edge"
	"github.com/millrace/millrace/internal/exampletools/account"
	"github.com/millrace/millrace/internal/idp"
)

// providerID is what the server calls its provider.
const providerID = "millrace"

func main() {
	listen := flag.String("listen", "127.0.0.1:8804", "`address` on loopback")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := serve(ctx, *listen, func(url string, _ *idp.Provider) { fmt.Printf("account  %s   log in as ada, password lovelace\n", url) }); err != nil {
		fmt.Fprintln(os.Stderr, "account:", err)
		os.Exit(1)
	}
}

// serve serves until ctx ends. It tells its URL when it is ready.
func serve(ctx context.Context, listen string, ready func(url string, provider *idp.Provider)) error {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	url := "http://" + l.Addr().String()
	provider, err := idp.Start(idp.Options{Users: []idp.User{{Name: "ada", Password: "lovelace", Subject: "user-1815"}}})
	if err != nil {
		return err
	}
	defer provider.Close()
	provider.RegisterRedirect(idp.DefaultClientID, url+"/oauth/callback/"+providerID)
	opts := toolserver.Options{PublicURL: url, Status: true, ProviderRootCAs: x509.NewCertPool()}
	if !opts.ProviderRootCAs.AppendCertsFromPEM(provider.CACertPEM()) {
		return errors.New("the provider's certificate cannot be read")
	}
	tools, err := account.Open(account.Options{
		Server: opts, UserInfoURL: provider.UserInfoURL(),
		Provider: toolserver.OAuthProvider{
			ID: providerID, AuthURL: provider.AuthURL(), TokenURL: provider.TokenURL(), ClientID: idp.DefaultClientID,
			Scopes: []string{"openid", "profile", "offline_access"}, Issuer: provider.Issuer(), RequireIssuer: true,
			Confirm: true, // whatever a runtime calls its users, they are not called that at this provider
		},
	})
	if err != nil {
		return err
	}
	if err := tools.Start(); err != nil {
		return err
	}
	server := edge.New(edge.Guard(edge.Policy{Pages: "/oauth/"}, tools), edge.Options{Body: -1}) // the server has limits of its own
	defer context.AfterFunc(ctx, func() { server.Close() })()
	ready(url, provider)
	err = server.Serve(l)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = tools.Close(closing) // what does not end within a second is lost, which an example may do
	return err
}
