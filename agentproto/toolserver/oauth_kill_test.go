package toolserver_test

import (
	"bufio"
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/toolserver"
	"github.com/millrace/millrace/internal/idp"
)

// childEnv turns a test of this file into a process to be killed. Its value holds the
// settings of the process.
const childEnv = "MILLRACE_TOOLSERVER_CHILD"

// A child is a process of this test binary.
type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

func startChild(t *testing.T, test string, settings any) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+test+"$")
	cmd.Env = append(os.Environ(), childEnv+"="+mustJSON(t, settings))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	c := &child{t, cmd, bufio.NewScanner(out)}
	t.Cleanup(func() { c.kill() })
	return c
}

// line returns the next line that the process writes.
func (c *child) line() string {
	c.t.Helper()
	if !c.lines.Scan() {
		c.t.Fatalf("the process has ended: %v", c.lines.Err())
	}
	return c.lines.Text()
}

// kill kills the process with SIGKILL, and returns the last line that it wrote.
func (c *child) kill() (last string) {
	c.cmd.Process.Kill()
	for c.lines.Scan() {
		last = c.lines.Text()
	}
	c.cmd.Wait()
	return last
}

// TestKillWhileSaving kills processes that save one rotated token after another. The vault
// then holds the last one reported as saved or the next one, complete.
func TestKillWhileSaving(t *testing.T) {
	t.Parallel()
	type settings struct{ Folder, Keys string }
	key := toolserver.TokenKey{Runtime: "r", User: "user:u", Provider: "p"}
	open := func(s settings) *toolserver.FileVault {
		keys, err := toolserver.LoadKeyset(s.Keys)
		if err != nil {
			t.Fatal(err)
		}
		v, err := toolserver.NewVault(s.Folder, keys)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	token := func(n int) *toolserver.UserToken {
		return &toolserver.UserToken{
			Access:  toolserver.NewSecret(fmt.Sprint("access-", n, strings.Repeat("-", 5000))),
			Refresh: toolserver.NewSecret(fmt.Sprint("refresh-", n)),
		}
	}
	if text := os.Getenv(childEnv); text != "" {
		var s settings
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Fatal(err)
		}
		v := open(s)
		for n := 1; ; n++ {
			if err := v.Save(t.Context(), key, token(n)); err != nil {
				t.Fatal(err)
			}
			fmt.Println(n)
		}
	}
	dir := t.TempDir()
	s := settings{filepath.Join(dir, "vault"), filepath.Join(dir, "keys.json")}
	for round := range 8 {
		c := startChild(t, "TestKillWhileSaving", s)
		seen := 0
		for range 3 + 5*round {
			fmt.Sscan(c.line(), &seen)
		}
		fmt.Sscan(c.kill(), &seen) // what it wrote until it died
		v := open(s)
		got, err := v.Load(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		var kept int
		fmt.Sscanf(got.Refresh.Reveal(), "refresh-%d", &kept)
		if kept != seen && kept != seen+1 || got.Access.Reveal() != token(kept).Access.Reveal() {
			t.Errorf("token %d is kept, %d was seen saved", kept, seen)
		}
		v.Close()
	}
}

// TestO23_KilledWhilePending kills a tool server that waits for a user. The next process
// continues: the same address is valid, and the call gets its result (case O23).
func TestO23_KilledWhilePending(t *testing.T) {
	t.Parallel()
	type settings struct{ State, Addr, PublicURL, Issuer, AuthURL, TokenURL, UserInfoURL, CA string }
	if text := os.Getenv(childEnv); text != "" {
		var s settings
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Fatal(err)
		}
		serveChild(t, s.State, s.Addr, s.CA, s.UserInfoURL, toolserver.OAuthProvider{
			ID: "idp", AuthURL: s.AuthURL, TokenURL: s.TokenURL, ClientID: idp.DefaultClientID,
			Scopes: []string{"openid", "profile", "offline_access"}, Issuer: s.Issuer, RequireIssuer: true,
			UnsafeAnyoneMayAuthorize: "the test is every user",
		})
	}
	p, err := idp.Start(idp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	messages := make(chan agentproto.Callback, 100)
	rt := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		msg, err := agentproto.DecodeCallback(body, agentproto.Limits{})
		if err != nil {
			t.Errorf("%s: %v", body, err)
			return
		}
		messages <- msg
	}))
	defer rt.Close()
	next := func() agentproto.Callback {
		t.Helper()
		select {
		case m := <-messages:
			return m
		case <-time.After(30 * time.Second):
			t.Fatal("no message came")
			return nil
		}
	}
	free := httptest.NewServer(nil) // reserves an address that stays the same across processes
	addr := free.Listener.Addr().String()
	free.Close()
	s := settings{t.TempDir(), addr, "http://" + addr, p.Issuer(), p.AuthURL(), p.TokenURL(), p.UserInfoURL(), string(p.CACertPEM())}
	p.RegisterRedirect(idp.DefaultClientID, s.PublicURL+"/oauth/callback/idp")

	first := startChild(t, "TestO23_KilledWhilePending", s)
	first.line()
	resp, err := http.Post(s.PublicURL+"/invoke", "application/json", strings.NewReader(fmt.Sprintf(
		`{"operation":"whoami","arguments":{},"id":"c1","group_id":"g","callback_url":%q,"user_id":"u1"}`, rt.URL)))
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("invocation: %v, %v", resp, err)
	}
	resp.Body.Close()
	o, ok := next().(*agentproto.OAuth)
	if !ok {
		t.Fatalf("got %v, want an oauth message", o)
	}
	to, err := p.NewBrowser().Grant(t.Context(), o.AuthURL, "ada", "lovelace")
	if err != nil {
		t.Fatal(err)
	}
	first.kill()

	second := startChild(t, "TestO23_KilledWhilePending", s)
	second.line()
	page, err := p.NewBrowser().Open(t.Context(), to.String())
	if err != nil || !strings.Contains(page, "The access is authorized.") {
		t.Errorf("page %s, %v", page, err)
	}
	m := next()
	if again, ok := m.(*agentproto.OAuth); ok { // it may have asked before the user came back
		if again.AuthURL != o.AuthURL {
			t.Error("another auth_url was sent")
		}
		m = next()
	}
	if r, ok := m.(*agentproto.ToolResult); !ok || r.String() != "ada" {
		t.Errorf("got %v, want the result", m)
	}
	if n := p.Exchanges(); n != 1 {
		t.Errorf("%d exchanges", n)
	}
	second.kill()
	third := startChild(t, "TestO23_KilledWhilePending", s)
	third.line()
	if _, err := p.NewBrowser().Open(t.Context(), to.String()); err == nil {
		t.Error("the address is good twice")
	}
	resp, err = http.Post(s.PublicURL+"/invoke", "application/json", strings.NewReader(fmt.Sprintf(
		`{"operation":"whoami","arguments":{},"id":"c2","group_id":"g","callback_url":%q,"user_id":"u1"}`, rt.URL)))
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("invocation: %v, %v", resp, err)
	}
	resp.Body.Close()
	last := next()
	for last.Key().ID == "c1" { // a message that was being delivered when its process was killed
		last = next()
	}
	if r, ok := last.(*agentproto.ToolResult); !ok || r.String() != "ada" {
		t.Errorf("got %+v, want the user whose token was kept", last)
	}
	third.kill()
}

// serveChild runs a tool server until it is killed.
func serveChild(t *testing.T, state, addr, ca, userInfo string, provider toolserver.OAuthProvider) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(ca)) {
		t.Fatal("no certificate")
	}
	server, err := toolserver.Open(toolserver.Options{
		Name: "child", PublicURL: "http://" + addr, State: state, Providers: []toolserver.OAuthProvider{provider}, ProviderRootCAs: roots,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	toolserver.AddWithOptions(server, "whoami", "Tells who the user is.", toolserver.ToolOptions{RequireOAuth: "idp"},
		func(ctx context.Context, _ none) (string, error) {
			resp, err := toolserver.Client(ctx).Get(userInfo)
			if err != nil {
				return "", err
			}
			defer resp.Body.Close()
			var info struct{ Name string }
			err = json.NewDecoder(resp.Body).Decode(&info)
			return info.Name, err
		})
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("ready")
	t.Fatal(http.Serve(listener, server))
}
