package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/conform"
	"github.com/millrace/millrace/internal/idp"
)

// A target is a listener of one of our processes, and a request that it serves.
type target struct {
	name   string
	addr   string
	secure bool
	auth   string // a header line, or ""
	method string
	path   string
	body   string
	served int
}

// send sends a request and returns the status of the response, or 0 if the connection was
// closed without one. HOST in the text stands for the target's address.
func (x target) send(t *testing.T, text string) int {
	t.Helper()
	status, _, conn := x.answer(t, text)
	conn.Close()
	return status
}

func (x target) answer(t *testing.T, text string) (status int, resp *http.Response, conn net.Conn) {
	t.Helper()
	conn, err := net.Dial("tcp", x.addr)
	if err != nil {
		t.Fatalf("%s: %v", x.name, err)
	}
	if x.secure { // who signed the certificate does not matter here
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
	}
	conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(conn, strings.ReplaceAll(text, "HOST", x.addr)); err != nil {
		return 0, nil, conn // it was closed before everything was sent
	}
	resp, err = http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, nil, conn
	}
	return resp.StatusCode, resp, conn
}

// request returns the request that is served, with header lines that replace those of the same
// name. An empty value removes a line.
func (x target) request(changes ...string) string {
	lines := []string{"Host: HOST", x.auth, "Content-Type: application/json", fmt.Sprintf("Content-Length: %d", len(x.body)), "Connection: close"}
	for _, c := range changes {
		name, value, _ := strings.Cut(c, ":")
		lines = slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, name+":") })
		if value != "" {
			lines = append(lines, c)
		}
	}
	lines = slices.DeleteFunc(lines, func(l string) bool { return l == "" })
	return fmt.Sprintf("%s %s HTTP/1.1\r\n%s\r\n\r\n%s", x.method, x.path, strings.Join(lines, "\r\n"), x.body)
}

// targets starts processes with every kind of listener.
func targets(t *testing.T) (all map[string]target, temp string) {
	t.Helper()
	temp = t.TempDir()
	t.Setenv("TMPDIR", temp) // also for the processes
	tool := newMovingTool(t)
	s := serveRuntime(t, filepath.Join(t.TempDir(), "state"), tool.bases[:1], "--migration-key", filepath.Join(t.TempDir(), "key"))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s.request(ctx, "POST", "/calls", `{"group_id":"t","id":"attacked","operation":"late"}`, http.StatusAccepted)
	key := agentproto.CallKey{GroupID: "t", ID: "attacked"}
	for tool.isWaiting(key) {
		s.request(ctx, "GET", "/calls/t/attacked?wait=50ms", "", http.StatusNoContent)
	}
	tool.mu.Lock()
	callback, err := url.Parse(tool.invoked[key])
	tool.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	token, err := findToken("", s.state)
	if err != nil {
		t.Fatal(err)
	}
	_, clocks := startTool(t)
	provider, err := idp.Start(idp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { provider.Close() })
	hello := startControl(t, tool.bases[0])
	invoke := `{"operation":"add","arguments":{"a":1,"b":2},"id":"x","group_id":"t","thread_ancestors":[],"callback_url":"http://127.0.0.1:1/"}`
	bearer := "Authorization: Bearer "
	return map[string]target{
		"api":       {addr: strings.TrimPrefix(s.api, "http://"), auth: bearer + token, method: "POST", path: "/calls", body: `{"group_id":"t","operation":"late"}`, served: 202},
		"control":   {addr: strings.TrimPrefix(hello.Control, "http://"), auth: bearer + hello.Token, method: "POST", path: "/sessions", body: `{"id":"s"}`, served: 200},
		"callback":  {addr: callback.Host, method: "POST", path: callback.EscapedPath(), body: `{"type":"view_update","group_id":"t","id":"attacked","view_type":"v","content":1}`, served: 200},
		"migration": {addr: callback.Host, method: "POST", path: "/rap/v1/migration", body: "{}", served: 403}, // without the key
		"tool":      {addr: strings.TrimPrefix(clocks[0], "http://"), method: "POST", path: "/invoke", body: invoke, served: 200},
		"provider":  {addr: strings.TrimPrefix(provider.Issuer(), "https://"), secure: true, method: "GET", path: "/.well-known/openid-configuration", served: 200},
	}, temp
}

// startControl starts the runtime for a conformance run.
func startControl(t *testing.T, tool string) (hello conform.Hello) {
	t.Helper()
	config := filepath.Join(t.TempDir(), "config.json")
	text, err := json.Marshal(conform.RuntimeConfig{Toolsets: []conform.ToolsetConfig{{ID: "a", URL: tool}}, CallbackListen: freeAddress(t)})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, text, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := millrace(t, "control", config)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	if err := json.NewDecoder(out).Decode(&hello); err != nil {
		t.Fatal(err)
	}
	return hello
}

// TestAttacks attacks every listener as a page in a browser, a rebound name, a stranger on the
// same host or a slow client would.
func TestAttacks(t *testing.T) {
	all, temp := targets(t)
	programs := []string{"api", "control", "callback", "migration", "tool"} // those that no page may use
	secret := []string{"api", "control"}
	closed := 0 // the connection may be cut without an answer
	type statuses = []int
	attacks := []struct {
		name    string
		on      []string // nil means all
		changes []string
		want    statuses
	}{
		{"another Host", nil, []string{"Host: evil.example"}, statuses{421}},
		{"a rebound name with the port", nil, []string{"Host: rebound.example:7341"}, statuses{421}},
		{"a name that begins like loopback", nil, []string{"Host: 127.0.0.1.evil.example"}, statuses{421}},
		{"all addresses", nil, []string{"Host: 0.0.0.0:7341"}, statuses{421}},
		{"a user in the Host", nil, []string{"Host: evil@HOST"}, statuses{400, 421}},
		{"two Hosts", nil, []string{"Host: HOST\r\nHost: evil.example"}, statuses{400}},
		{"two Hosts the other way", nil, []string{"Host: evil.example\r\nHost: HOST"}, statuses{400}},
		{"two Hosts in one", nil, []string{"Host: HOST,evil.example"}, statuses{400, 421}},
		{"a forwarded Host", nil, []string{"Host: evil.example", "X-Forwarded-Host: HOST", "Forwarded: host=HOST"}, statuses{421}},
		{"no Host", nil, []string{"Host:"}, statuses{400}},
		{"an Origin", programs, []string{"Origin: https://evil.example"}, statuses{403}},
		{"Origin null", programs, []string{"Origin: null"}, statuses{403}},
		{"another site", []string{"api", "control", "tool"}, []string{"Sec-Fetch-Site: cross-site"}, statuses{403}},
		{"the same site", []string{"api", "control", "tool"}, []string{"Sec-Fetch-Site: same-site"}, statuses{403}},
		{"text", []string{"api", "control", "tool"}, []string{"Content-Type: text/plain"}, statuses{415}},
		{"a form", []string{"api", "control", "tool"}, []string{"Content-Type: application/x-www-form-urlencoded"}, statuses{415}},
		{"no type", []string{"api", "control", "tool"}, []string{"Content-Type:"}, statuses{415}},
		{"no token", secret, []string{"Authorization:"}, statuses{401}},
		{"a wrong token", secret, []string{"Authorization: Bearer AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}, statuses{401}},
		{"an empty token", secret, []string{"Authorization: Bearer "}, statuses{401}},
		{"another scheme", secret, []string{"Authorization: Basic QUFBQUE6QUFBQUE="}, statuses{401}},
		{"a cookie", secret, []string{"Authorization:", "Cookie: token=x"}, statuses{401}},
		{"a large header", nil, []string{"X-Large: " + strings.Repeat("x", 64<<10)}, statuses{431, closed}},
		{"a large body", programs, []string{"Content-Length: 1000000000"}, statuses{413, 403, closed}},
		{"a length that is none", nil, []string{"Content-Length: -1"}, statuses{400}},
		{"two lengths", nil, []string{"Content-Length: 2\r\nContent-Length: 3"}, statuses{400}},
		{"a compressed body", []string{"api", "control", "tool"}, []string{"Content-Encoding: gzip"}, statuses{415}},
	}
	for name, x := range all {
		x.name = name
		if name != "callback" {
			// The call of the view stays open, so the request can be repeated. The callback is skipped
			// because it may already limit its requests.
			if got := x.send(t, x.request()); got != x.served {
				t.Errorf("%s: the request that is to be served is answered %d, want %d", name, got, x.served)
			}
		}
		for _, a := range attacks {
			if a.on != nil && !slices.Contains(a.on, name) {
				continue
			}
			if got := x.send(t, x.request(a.changes...)); !slices.Contains(a.want, got) {
				t.Errorf("%s: %s: %d, want %v", name, a.name, got, a.want)
			}
		}
		// These attacks are not in the header.
		whole := strings.Replace(x.request("Host: HOST"), " "+x.path, " http://evil.example"+x.path, 1)
		if got := x.send(t, whole); got != 421 {
			t.Errorf("%s: another host in the request line: %d, want 421", name, got)
		}
		old := strings.Replace(x.request("Host:"), "HTTP/1.1", "HTTP/1.0", 1)
		if got := x.send(t, old); got != 421 && !slices.Contains([]string{"callback", "migration"}, name) { // those may be behind an old proxy
			t.Errorf("%s: HTTP/1.0 without a Host: %d, want 421", name, got)
		}
		for _, path := range []string{"/" + x.path, x.path + "/../" + x.path, "/." + x.path, "*", "/nowhere", "/%2f", x.path + "%00"} {
			moved := strings.Replace(x.request(), " "+x.path+" ", " "+path+" ", 1)
			if got := x.send(t, moved); got < 400 {
				t.Errorf("%s: path %s: %d, want a refusal", name, path, got)
			}
		}
		for _, method := range []string{"PUT", "PATCH", "TRACE", "CONNECT", "OPTIONS", "post", "POST\tPOST", "PRI"} {
			other := strings.Replace(x.request(), x.method+" ", method+" ", 1)
			if got := x.send(t, other); got < 400 {
				t.Errorf("%s: %s is answered %d, want a refusal", name, method, got)
			}
		}
		multipart := x.request("Content-Type: multipart/form-data; boundary=B", "Content-Length: 314572800")
		multipart = "GET" + strings.TrimPrefix(multipart, x.method) + "--B\r\nContent-Disposition: form-data; name=\"wait\"; filename=\"f\"\r\n\r\n"
		x.flood(t, multipart)
		x.flood(t, strings.Replace(multipart, "Content-Length: 314572800", "Transfer-Encoding: chunked", 1))
	}
	if files, err := os.ReadDir(temp); err != nil || slices.ContainsFunc(files, func(f os.DirEntry) bool { return strings.HasPrefix(f.Name(), "multipart-") }) {
		t.Errorf("bodies were written to files: %v %v", files, err)
	}
	for _, name := range secret {
		all[name].many(t)
	}
}

// flood sends a request and continues to send for as long as the server reads.
func (x target) flood(t *testing.T, request string) {
	t.Helper()
	conn, err := net.Dial("tcp", x.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if x.secure {
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
	}
	conn.SetDeadline(time.Now().Add(time.Minute))
	sent := 0
	_, err = io.WriteString(conn, strings.ReplaceAll(request, "HOST", x.addr))
	for chunk := []byte("8000\r\n" + strings.Repeat("x", 0x8000) + "\r\n"); err == nil && sent < 64<<20; sent += len(chunk) {
		_, err = conn.Write(chunk)
	}
	// What was sent beyond that is in the buffers of both ends.
	if sent >= 64<<20 {
		t.Errorf("%s: %d bytes of a body of a GET were taken", x.name, sent)
	}
}

// many sends wrong tokens, waiting requests and bodies that never arrive, and checks that other
// requests are still served.
func (x target) many(t *testing.T) {
	served := func(while string) {
		t.Helper()
		if got := x.send(t, x.request()); got != x.served && got != 409 {
			t.Errorf("%s: while %s, a request is answered %d, want %d", x.name, while, got, x.served)
		}
	}
	limited := 0
	for i := range 30 {
		if x.send(t, x.request(fmt.Sprintf("Authorization: Bearer guess-%d", i))) == 429 {
			limited++
		}
	}
	if limited == 0 {
		t.Errorf("%s: no wrong token was one too many", x.name)
	}
	served("somebody guesses")
	// Without the token the server does not wait for the body.
	var slow []net.Conn
	for range 300 {
		status, _, conn := x.answer(t, x.request("Authorization:", "Content-Length: 100"))
		if slow = append(slow, conn); status != 401 {
			t.Fatalf("%s: a body that does not come is answered %d, want 401", x.name, status)
		}
	}
	served("300 bodies do not come")
	for _, conn := range slow {
		conn.Close()
	}
	if x.name != "api" {
		return
	}
	get := strings.Replace(x.request("Content-Length:"), "POST /calls", "GET /calls/t/attacked?wait=5m", 1)
	var waiting []net.Conn
	answers := make(chan *http.Response, 100)
	var over sync.WaitGroup
	for range cap(answers) {
		conn, err := net.Dial("tcp", x.addr)
		if err != nil {
			t.Fatal(err)
		}
		waiting = append(waiting, conn)
		io.WriteString(conn, strings.ReplaceAll(get[:strings.Index(get, "\r\n\r\n")+4], "HOST", x.addr))
		over.Go(func() {
			if resp, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
				answers <- resp
			}
		})
	}
	for range cap(answers) - 64 {
		select {
		case resp := <-answers:
			if resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" {
				t.Errorf("one request too many that waits: %d", resp.StatusCode)
			}
		case <-time.After(time.Minute):
			t.Fatal("more than 64 requests wait")
		}
	}
	served("64 requests wait")
	for _, conn := range waiting {
		conn.Close()
	}
	over.Wait()
	if len(answers) > 0 {
		t.Error("fewer than 64 requests may wait")
	}
}
