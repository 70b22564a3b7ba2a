package undertest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/millrace/millrace/agentproto/toolserver"
	"github.com/millrace/millrace/internal/edge"
)

// Serve serves with the configuration in a file until ctx ends or stdin reaches its end. If the
// configuration asks for an invalid manifest, Serve panics like a program that uses package
// toolserver.
func Serve(ctx context.Context, path string, stdin io.Reader) error {
	config, err := readConfig(path)
	if err != nil {
		return err
	}
	s, err := start(config, Change{})
	if err != nil {
		return err
	}
	defer s.end()
	leash := make(chan struct{})
	go func() {
		io.Copy(io.Discard, stdin)
		close(leash)
	}()
	select {
	case err := <-s.failed:
		return err
	case <-leash:
	case <-ctx.Done():
	}
	return nil
}

// A service is a running server.
type service struct {
	server *toolserver.Server
	http   *edge.Server
	failed chan error
}

func start(config Config, change Change) (*service, error) {
	cert, err := tls.X509KeyPair(config.Cert, config.Key)
	if err != nil {
		return nil, err
	}
	server, err := newServer(config, change)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", config.Listen)
	if err != nil {
		return nil, err
	}
	var handler http.Handler = server
	if change.Handler != nil {
		handler = change.Handler(server)
	}
	h := edge.New(handler, edge.Options{
		Body: -1, // the server has its own limit, which differs for a session that moves here
		TLS:  &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12},
	})
	// Calls that an earlier process accepted continue now, rather than at the first request.
	if err := server.Start(); err != nil {
		return nil, err
	}
	s := &service{server: server, http: h, failed: make(chan error, 1)}
	go func() { s.failed <- h.Serve(l) }()
	return s, nil
}

// end stops the server. What does not end within a second is left in the state.
func (s *service) end() {
	s.http.Close()
	ctx, stop := context.WithTimeout(context.Background(), time.Second)
	defer stop()
	_ = s.server.Close(ctx)
}

// options returns the settings of the server.
func (c Config) options() (toolserver.Options, error) {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.Provider.CA)
	own := x509.NewCertPool()
	own.AppendCertsFromPEM(c.CA)
	keys, err := toolserver.LoadKeyset(c.Secrets)
	if err != nil {
		return toolserver.Options{}, err
	}
	if c.Forget {
		c.State, keys = "", nil
	}
	return toolserver.Options{
		Name: "under-test", Description: "Every role of the conformance cases.",
		PublicURL: "https://" + c.Listen, State: c.State, Keys: keys,
		Authenticate: c.authenticate, CallbackOrigins: c.Callbacks,
		Status: true, MaxCalls: c.Calls,
		CallbackTimeout: millis(c.CallbackTimeout), ChoiceTimeout: millis(c.ChoiceTimeout),
		OAuthTimeout: millis(c.OAuthTimeout), ProviderTimeout: millis(c.ProviderTimeout),
		ProviderRootCAs: roots,
		Providers: []toolserver.OAuthProvider{{
			ID: "idp", AuthURL: c.Provider.Auth, TokenURL: c.Provider.Token, ClientID: c.Provider.Client,
			Scopes: []string{"openid", "profile", "offline_access"}, Issuer: c.Provider.Issuer, RequireIssuer: true,
			SubjectIsUser: true, KeysURL: c.Provider.Keys,
		}},
		MigrationDestinations: c.Others, MigrationKey: toolserver.NewSecret(c.MoveKey), MigrationRootCAs: own,
		MigrationTimeout: millis(c.MigrateTimeout),
		Logger:           slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}, nil
}

func (c Config) authenticate(r *http.Request) (string, error) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if name := c.Runtimes[token]; name != "" {
		return name, nil
	}
	return "", errors.New("no such runtime")
}
