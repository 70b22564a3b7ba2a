package undertest

import (
	crand "crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"

	"github.com/millrace/millrace/agentproto/conform"
	"github.com/millrace/millrace/agentproto/toolserver"
	"github.com/millrace/millrace/internal/freeport"
	"github.com/millrace/millrace/internal/idp"
)

// The limits of the servers. They are short, so that a run is short.
const (
	limitCalls    = 200
	limitCallback = 2_000
	limitChoice   = 4_000
	limitOAuth    = 6_000
	limitProvider = 2_000
	limitMigrate  = 10_000
	people        = 200
)

// A stage contains everything around the servers: a provider, and the configurations, which differ
// only in state folder and address.
type stage struct {
	folder   string
	ports    []string // of both servers, and of both runtimes
	base     Config
	provider *idp.Provider
	profile  conform.ToolProfile
}

func newStage(folder string) (*stage, error) {
	var users []idp.User
	oauth := &conform.OAuthProfile{Issuer: true}
	for i := range people {
		u := idp.User{Name: fmt.Sprintf("person-%d", i), Password: crand.Text(), Subject: fmt.Sprintf("subject-%d", i)}
		users = append(users, u)
		oauth.Users = append(oauth.Users, conform.OAuthUser{Name: u.Name, Password: u.Password, Shows: u.Name + " (" + u.Subject + ")", UserID: u.Subject})
	}
	ports, err := freeport.Addresses(4)
	if err != nil {
		return nil, err
	}
	cert, key, err := certificate()
	if err != nil {
		return nil, err
	}
	provider, err := idp.Start(idp.Options{Users: users})
	if err != nil {
		return nil, err
	}
	provider.RegisterRedirect(idp.DefaultClientID, "https://"+ports[0]+"/oauth/callback/idp")
	one, two := crand.Text(), crand.Text()
	base := Config{
		Cert: cert, Key: key, CA: cert,
		Runtimes:  map[string]string{one: "runtime-one", two: "runtime-two"},
		Callbacks: []string{"http://" + ports[2], "http://" + ports[3]}, MoveKey: crand.Text() + crand.Text(),
		Provider: Provider{
			Issuer: provider.Issuer(), Auth: provider.AuthURL(), Token: provider.TokenURL(), UserInfo: provider.UserInfoURL(),
			Keys: provider.KeysURL(), Client: idp.DefaultClientID, CA: provider.CACertPEM(),
		},
		Calls: limitCalls, CallbackTimeout: limitCallback, ChoiceTimeout: limitChoice, OAuthTimeout: limitOAuth, ProviderTimeout: limitProvider, MigrateTimeout: limitMigrate,
	}
	return &stage{folder: folder, ports: ports, base: base, provider: provider, profile: conform.ToolProfile{
		URL: "https://" + ports[0], CA: string(cert) + string(provider.CACertPEM()),
		Headers:      map[string]string{"Authorization": "Bearer " + one},
		OtherHeaders: map[string]string{"Authorization": "Bearer " + two},
		Roles:        Roles(), Callbacks: ports[2:4], OnlyCallbacks: true,
		Limits: conform.Limits{
			Calls: limitCalls, Callback: limitCallback, Choice: limitChoice, Authorization: limitOAuth, Provider: limitProvider,
			Migrate: limitMigrate + 5_000, Quiet: 1_600,
		},
		OAuth: oauth, State: filepath.Join(folder, "server", "state"), Status: true,
	}}, nil
}

// config returns the configuration of a server that listens at ports[at], and makes its state
// folder. The keys are not in that folder, which may be copied.
func (st *stage) config(name string, at int) (Config, error) {
	c := st.base
	c.Listen, c.Others = st.ports[at], []string{"https://" + st.ports[1-at]}
	c.State, c.Secrets = filepath.Join(st.folder, name, "state"), filepath.Join(st.folder, name, "keys.json")
	return c, os.MkdirAll(c.State, 0o700)
}

// Prepare prepares two servers under test and a provider. It does not start the servers; the
// returned target contains their commands. Argv is a command that calls [Serve] with the path that
// is appended to it. Configuration and state go into folder. The function end stops the provider.
func Prepare(folder string, argv ...string) (target conform.ToolTarget, end func(), err error) {
	st, err := newStage(folder)
	if err != nil {
		return target, nil, err
	}
	command := func(name string, at int, broken string) []string {
		c, cerr := st.config(name, at)
		c.Broken = broken
		path := filepath.Join(folder, name, "config.json")
		err = errors.Join(err, cerr, c.write(path))
		return append(append([]string{}, argv...), path)
	}
	st.profile.Command = command("server", 0, "")
	st.profile.Broken = map[string][]string{
		"no_description": command("undescribed", 0, "no_description"),
		"bad_schema":     command("shapeless", 0, "bad_schema"),
	}
	st.profile.Destination = &conform.Destination{
		URL: "https://" + st.ports[1], Command: command("destination", 1, ""), Import: "/migrate/import",
	}
	if err != nil {
		st.provider.Close()
		return target, nil, err
	}
	return conform.ToolTarget{Profile: st.profile, Provider: st.provider}, func() { st.provider.Close() }, nil
}

// A Change makes a server faulty, to test whether that is noticed.
type Change struct {
	// Options changes the settings of the server.
	Options func(*toolserver.Options)
	// Handler wraps the handler of the server.
	Handler func(http.Handler) http.Handler
}

// Start starts the two servers in this process, the first one with change. They cannot be killed,
// so the target has no commands.
func Start(folder string, change Change) (target conform.ToolTarget, end func(), err error) {
	st, err := newStage(folder)
	if err != nil {
		return target, nil, err
	}
	var running []*service
	end = func() {
		for _, s := range running {
			s.end()
		}
		st.provider.Close()
	}
	for i, name := range []string{"server", "destination"} {
		config, err := st.config(name, i)
		if err != nil {
			end()
			return target, nil, err
		}
		s, err := start(config, change)
		if err != nil {
			end()
			return target, nil, err
		}
		running = append(running, s)
		change = Change{Options: func(o *toolserver.Options) { o.Logger = slog.New(slog.DiscardHandler) }}
	}
	st.profile.Destination = &conform.Destination{URL: "https://" + st.ports[1], Import: "/migrate/import"}
	return conform.ToolTarget{Profile: st.profile, Provider: st.provider}, end, nil
}

// Roles returns the roles of a server under test.
func Roles() map[string]conform.Role {
	role := func(operation, arguments string) conform.Role {
		return conform.Role{Operation: operation, Arguments: json.RawMessage(arguments)}
	}
	grant := role("grant", `{}`)
	grant.Select = 2
	return map[string]conform.Role{
		"echo":      role("echo", `{"text":"$TEXT"}`),
		"slow":      role("slow", `{"name":"$NAME"}`),
		"count":     role("count", `{"name":"$NAME"}`),
		"peek":      role("peek", `{"name":"$NAME"}`),
		"panic":     role("crash", `{}`),
		"invalid":   role("count", `{"name":7}`),
		"choose":    role("choose", `{}`),
		"grant":     grant,
		"authorize": role("whoami", `{}`),
		"leak":      role("leak", `{"how":"$TEXT"}`),
		"subscribe": role("watch", `{"name":"$NAME"}`),
		"publish":   role("publish", `{"name":"$NAME","text":"$TEXT"}`),
		"remember":  role("remember", `{"name":"$NAME","text":"$TEXT"}`),
		"recall":    role("recall", `{"name":"$NAME"}`),
		"messy":     role("messy", `{"name":"$NAME"}`),
	}
}
