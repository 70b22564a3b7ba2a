package undertest

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/millrace/millrace/agentproto/conform"
	"github.com/millrace/millrace/internal/idp"
)

// The limits that the servers have. They are short, so that a run is.
const (
	limitCalls    = 200
	limitCallback = 2_000
	limitChoice   = 4_000
	limitOAuth    = 9_000
	limitProvider = 2_000
	people        = 40
)

// Prepare makes two servers under test and a provider: everything but the processes,
// which the returned target has the commands for. Argv is a command that calls
// [Serve] with the path that is appended to it. Folder is where configuration and
// state go. Close ends the provider.
func Prepare(folder string, argv ...string) (target conform.ToolTarget, closeAll func(), err error) {
	var users []idp.User
	oauth := &conform.OAuthProfile{Issuer: true}
	for i := range people {
		u := idp.User{Name: fmt.Sprintf("person-%d", i), Password: rand.Text(), Subject: fmt.Sprintf("subject-%d", i)}
		users = append(users, u)
		oauth.Users = append(oauth.Users, conform.OAuthUser{Name: u.Name, Password: u.Password, Shows: u.Name + " (" + u.Subject + ")"})
	}
	provider, err := idp.Start(idp.Options{Users: users})
	if err != nil {
		return target, nil, err
	}
	defer func() {
		if err != nil {
			provider.Close()
		}
	}()
	ports, err := freePorts(4)
	if err != nil {
		return target, nil, err
	}
	cert, key, err := certificate()
	if err != nil {
		return target, nil, err
	}
	move := make([]byte, 32)
	rand.Read(move)
	one, two := rand.Text(), rand.Text()
	base := Config{
		Cert: cert, Key: key, CA: cert,
		Runtimes:  map[string]string{one: "runtime-one", two: "runtime-two"},
		Callbacks: []string{"http://" + ports[2], "http://" + ports[3]}, MoveKey: move,
		Provider: Provider{
			Issuer: provider.Issuer(), Auth: provider.AuthURL(), Token: provider.TokenURL(), UserInfo: provider.UserInfoURL(),
			Client: idp.DefaultClientID, CA: provider.CACertPEM(),
		},
		Calls: limitCalls, CallbackTimeout: limitCallback, ChoiceTimeout: limitChoice, OAuthTimeout: limitOAuth, ProviderTimeout: limitProvider,
	}
	command := func(name, listen, other, broken string) []string {
		if err != nil {
			return nil
		}
		c := base
		c.Listen, c.Broken, c.Others = listen, broken, []string{"https://" + other}
		// The keys are not in the state folder, which may be copied.
		c.State, c.Secrets = filepath.Join(folder, name, "state"), filepath.Join(folder, name, "keys.json")
		path := filepath.Join(folder, name, "config.json")
		err = errors.Join(os.MkdirAll(c.State, 0o700), c.write(path))
		return append(append([]string{}, argv...), path)
	}
	provider.RegisterRedirect(idp.DefaultClientID, "https://"+ports[0]+"/oauth/callback/idp")
	p := conform.ToolProfile{
		URL: "https://" + ports[0], CA: string(cert) + string(provider.CACertPEM()),
		Command: command("server", ports[0], ports[1], ""),
		Broken: map[string][]string{
			"no_description": command("undescribed", ports[0], ports[1], "no_description"),
			"bad_schema":     command("shapeless", ports[0], ports[1], "bad_schema"),
		},
		Headers:      map[string]string{"Authorization": "Bearer " + one},
		OtherHeaders: map[string]string{"Authorization": "Bearer " + two},
		Roles:        Roles(), Callbacks: ports[2:4], OnlyCallbacks: true,
		Limits: conform.Limits{
			Calls: limitCalls, Callback: limitCallback, Choice: limitChoice, Authorization: limitOAuth, Provider: limitProvider,
			Migrate: 30_000, Quiet: 1_600,
		},
		OAuth: oauth, State: filepath.Join(folder, "server", "state"),
	}
	if err != nil {
		return target, nil, err
	}
	return conform.ToolTarget{Profile: p, Provider: provider}, func() { provider.Close() }, nil
}

// Roles are the operations of a server under test.
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
		"messy":     role("messy", `{"name":"$NAME"}`),
	}
}

// freePorts returns addresses on loopback that were free a moment ago. A server that
// is killed comes back at its own.
func freePorts(n int) (all []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		all = append(all, l.Addr().String())
	}
	return all, nil
}
