package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// writeConfig writes a file for --config.
func writeConfig(t testing.TB, name, text string) string {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestConfigIsFlags checks that each member of a configuration sets its flag, and that every flag has a member.
func TestConfigIsFlags(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TEST_HEADER", "Bearer x")
	whsec := writeConfig(t, filepath.Join(dir, "whsec"), "whsec_"+strings.Repeat("QUJD", 8)+"\n")
	cert, key := makeCertificate(t, dir, 1)
	text := fmt.Sprintf(`{
		"state": "/s", "keep_for": "72h", "partitions": 4, "witness": "/w", "accept_other_keys": true, "migration_key": "/m",
		"memory_mib": 0, "timeout": "2m", "max_result": "2MiB", "ask_status": true, "allow_http": true,
		"allow_networks": ["10.0.0.0/8"], "allow_origins": ["https://files.example"],
		"api": {"listen": "127.0.0.1:1", "hosts": ["a", "b"], "token_file": "/t", "tokens": "/u", "url": "https://agents.example", "oidc": {"issuer": "https://id.example", "audience": "m"}, "tls": {"cert": %[1]q, "key": %[2]q}},
		"callbacks": {"listen": "127.0.0.1:2", "public": "https://p", "tls": {"cert": %[1]q, "key": %[2]q}},
		"monitor": {"listen": "127.0.0.1:3", "backups": "/b"},
		"nats": {"servers": ["nats://x"], "name": "n", "replicas": 5, "credentials": "/c", "nkey": "/n", "ca": "/ca", "cert": "/nc", "key": "/nk",
			"system": "nats://y", "system_credentials": "/sc", "assume_durable": true},
		"tools": [
			{"url": "https://tools.example/", "headers": {"Authorization": {"env": "TEST_HEADER"}}, "secret": {"file": %[3]q}, "origins": ["https://o.example"]},
			{"url": "http://127.0.0.1:9", "command": "tool --listen {port}"}],
		"mcp": {"b": {"command": ["LOG=debug", "it's", "a b"], "env": {"TOKEN": {"env": "TEST_HEADER"}}, "repeat": {"t": "never"}, "pin": true, "idle": "5m", "per_user": true, "max_users": 3},
			"a": {"url": "https://mcp.example/mcp", "headers": {"authorization": {"env": "TEST_HEADER"}},
				"client": {"id": "c", "issuer": "https://id.example?a=b", "secret": {"env": "TEST_HEADER"}}}},
		"models": [{"name": "big", "openai": "https://m/v1", "model": "m1", "key": {"env": "TEST_HEADER"}, "fallback": ["s", "t"], "context": "1MiB"},
			{"name": "s", "openai": "http://127.0.0.1:5", "model": "m2"}, {"name": "t", "script": "f"}]
	}`, cert, key, whsec)
	f, err := parseServe([]string{"--config", writeConfig(t, filepath.Join(dir, "c.json"), text)})
	if err != nil {
		t.Fatal(err)
	}
	set := map[string]string{}
	f.Visit(func(f *flag.Flag) { set[f.Name] = f.Value.String() })
	for name, want := range map[string]string{
		"state": "/s", "keep-for": "72h0m0s", "partitions": "4", "memory": "0", "timeout": "2m0s", "max-result": "2MiB", "ask-status": "true",
		"api": "127.0.0.1:1", "api-host": "a b", "api-tls-cert": cert, "callback-tls-key": key, "nats": "nats://x", "replicas": "5", "tool": "https://tools.example/",
		"tool-command": "http://127.0.0.1:9 tool --listen {port}", "model": "big=openai:https://m/v1 s=openai:http://127.0.0.1:5 t=script:f", "model-name": "big=m1 s=m2",
		"model-key": "big=env:TEST_HEADER", "model-fallback": "big=s,t", "model-context": "big=1MiB",
		"allow-network": "[10.0.0.0/8]", "allow-origin": "https://files.example https://tools.example=https://o.example",
	} {
		if set[name] != want {
			t.Errorf("--%s is %q, want %q", name, set[name], want)
		}
	}
	headers, err := f.tools.headers.of(f.tools.bases())
	if err != nil || headers["https://tools.example"].Get("Authorization") != "Bearer x" || len(f.secrets["https://tools.example"]) != 1 {
		t.Errorf("the headers are %v, %v, the secrets %v", headers, err, f.secrets)
	}
	if err := f.servers.settle(); err != nil {
		t.Fatal(err)
	}
	if a, b := f.servers.all[0], f.servers.all[1]; a.Name != "a" || a.URL != "https://mcp.example/mcp" || a.Header["Authorization"].Reveal() != "Bearer x" || b.Name != "b" ||
		!slices.Equal(b.Command, []string{"it's", "a b"}) || b.Env["TOKEN"] != "Bearer x" || b.Env["LOG"] != "debug" || b.Repeat["t"] != "never" || !b.Pin || a.Pin ||
		b.Idle != 5*time.Minute || !b.PerUser || b.MaxUsers != 3 || a.PerUser || a.Idle != 0 ||
		a.OAuth.ClientID != "c" || a.OAuth.Issuer != "https://id.example?a=b" || a.OAuth.ClientSecret.Reveal() != "Bearer x" || b.OAuth != nil {
		t.Errorf("the MCP servers are %+v", f.servers.all)
	}
	specs, err := f.models.specs()
	if err != nil || len(specs) != 3 || specs[0].name != "big" || specs[0].at != "https://m/v1" || specs[0].model != "m1" || specs[0].key != "env:TEST_HEADER" ||
		!slices.Equal(specs[0].fallback, []string{"s", "t"}) || specs[0].context != 1<<20 || specs[1].context != contextOf || specs[2].kind != "script" || specs[2].context != 0 {
		t.Errorf("the models are %+v, %v", specs, err)
	}
	f.VisitAll(func(f *flag.Flag) {
		if _, ok := set[f.Name]; !ok && f.Name != "config" && f.Name != "leash" {
			t.Errorf("no member of the configuration sets --%s", f.Name)
		}
	})

	f, err = parseServe([]string{"--config", filepath.Join(dir, "c.json"), "--model", "script:g"})
	if specs, wrong := f.models.specs(); err != nil || wrong != nil || len(specs) != 1 || specs[0].name != onlyModel || specs[0].at != "g" {
		t.Errorf("a --model does not win: %+v, %v, %v", specs, err, wrong)
	}
	f, err = parseServe([]string{"--config", filepath.Join(dir, "c.json"), "--timeout", "3m", "--tool", "http://127.0.0.1:7"})
	if err != nil {
		t.Fatal(err)
	}
	if *f.timeout != 3*time.Minute || !slices.Equal(f.tools.tools, urls{"http://127.0.0.1:7"}) || len(f.tools.commands)+len(f.secrets) != 0 || *f.kept.state != "/s" {
		t.Errorf("flags do not win: %v %v %v", *f.timeout, f.tools.tools, f.secrets)
	}
}

// TestBadConfigs checks that an error names its place in the file and does not repeat a value that may be a secret.
func TestBadConfigs(t *testing.T) {
	dir := t.TempDir()
	script := writeConfig(t, filepath.Join(dir, "script.json"), "[]")
	const good = `"state": "s", "tools": [{"url": "http://127.0.0.1:1"}]`
	for text, want := range map[string]string{
		`{` + good + `}`:                                                                                                 "",
		`{` + good + `, "stat": "s"}`:                                                                                    "/stat is not a member",
		`{` + good + `, "api": {"lisen": ""}}`:                                                                           "/api/lisen is not a member",
		`{` + good + `, "timeout": 5}`:                                                                                   "/timeout has to be a string",
		`{` + good + `, "memory_mib": "canary"}`:                                                                         "/memory_mib has to be an integer",
		`{` + good + `, "ask_status": "yes"}`:                                                                            "/ask_status has to be true or false",
		`{` + good + `, "state": "t"}`:                                                                                   "/state is there twice",
		`{"state": "s", "tools": [{"url": "tools"}]}`:                                                                    "not an http or https URL",
		`{"state": "s", "tools": [{"url": "http://a"}, {"url": "http://a/"}]}`:                                           "configured twice",
		`{"state": "s", "tools": [{"url": "http://a", "origins": ["files"]}]}`:                                           "not an http or https URL",
		`{` + good + `, "allow_origins": ["files"]}`:                                                                     "allowed origin",
		`{` + good + `, "callbacks": {"public": "agents"}}`:                                                              "not a plain http or https URL",
		`{` + good + `, "callbacks": {"listen": "agents"}}`:                                                              "nothing can listen at",
		`{` + good + `, "monitor": {"listen": "127.0.0.1:99999"}}`:                                                       "nothing can listen at",
		`{"state": "s", "tools": [{"command": "x {port}"}, {"command": "x {port}"}]}`:                                    "",
		`{` + good + `, "timeout": "soon"}`:                                                                              "/timeout: ",
		`{` + good + `, "timeout": "-1s"}`:                                                                               "--timeout must be positive",
		`{` + good + `, "memory_mib": 8796093022208}`:                                                                    "--memory must be",
		`{` + good + `, "model": {"openai": "https://m/v1", "name": "m", "key": "canary"}}`:                              "/model/key has to be an object",
		`{` + good + `, "model": {"openai": "https://m/v1", "script": "x"}}`:                                             "/model has both",
		`{` + good + `, "model": {"openai": "https://m/v1", "name": "m", "key": {"env": "X", "file": "y"}}}`:             "/model/key has both",
		`{` + good + `, "model": {"openai": "https://m/v1", "name": "m", "key": {"env": "MILLRACE_UNSET"}}}`:             "MILLRACE_UNSET of the environment is not set",
		`{"state": "s", "tools": [{}]}`:                                                                                  "/tools/0 has neither a url nor a command",
		`{"state": "s", "tools": []}`:                                                                                    "no tool server",
		`{"tools": [{"url": "http://127.0.0.1:1"}]}`:                                                                     "no --state folder",
		`{"state": "s", "tools": [{"url": "http://127.0.0.1:1", "headers": {"A": {}}}]}`:                                 "/tools/0/headers/A has neither",
		`{"state": "s", "tools": [{"url": "http://127.0.0.1:1", "headers": {"A": {"file": "/no/such"}}}]}`:               "/no/such",
		`{"state": "s", "tools": [{"command": "x {port}", "secret": {"file": "y"}}]}`:                                    "/tools/0 needs a url",
		`{` + good + `, "api": {"tls": {"cert": "x"}}}`:                                                                  "--api-tls-cert: a certificate and its key need each other",
		`{` + good + `, "api": {"tls": {"cert": "x", "key": "y"}}}`:                                                      "--api-tls-cert: certificate: open x",
		`{` + good + `, "api": {"url": "agents.example"}}`:                                                               "--api-url",
		`{` + good + `, "api": {"oidc": {"issuer": "http://id.example"}}}`:                                               "is not https://",
		`{` + good + `, "api": {"listen": "0.0.0.0:7341", "token_file": "t", "oidc": {"issuer": "https://id.example"}}}`: "needs --api-url",
		`{` + good + `, "api": {"oidc": {"audience": "m"}}}`:                                                             "needs --oidc-issuer",
		`{` + good + `, "api": {"listen": "0.0.0.0:7341"}}`:                                                              "has no token_file", // SE06
		`{` + good + `, "partitions": -3}`:                                                                               "c.json: --partitions must be 1 to 4096",
		`{` + good + `, "partitions": 5000}`:                                                                             "c.json: --partitions must be 1 to 4096",
		`{` + good + `, "nats": {"servers": ["nats://x"], "replicas": -1}}`:                                              "c.json: --replicas must be 1 to 5",
		`{` + good + `, "nats": {"servers": ["nats://x"], "cert": "x"}}`:                                                 "c.json: --nats-cert and --nats-key need each other",
		`{` + good + `, "nats": {"servers": ["nats://x"], "credentials": "x", "nkey": "y"}}`:                             "--credentials and --nats-nkey are two ways",
		`{` + good + `, "nats": {"servers": ["nats://x"], "nkey": "/no/such"}}`:                                          "--nats-nkey: nats: open /no/such",
		`{` + good + `, "mcp": {"a": {}}}`:                                                                               "/mcp/a has to have a command or a url",
		`{` + good + `, "mcp": {"a": {"command": ["x"], "url": "https://x"}}}`:                                           "/mcp/a has to have a command or a url", // SE05
		`{` + good + `, "mcp": {"A": {"command": ["x"]}}}`:                                                               "/mcp/A: a name has",
		`{` + good + `, "mcp": {"a": {"command": ["x"], "env": {"K": "canary"}}}}`:                                       "/mcp/a/env/K has to be an object",
		`{` + good + `, "mcp": {"a": {"command": ["x"], "env": {"K": {}}}}}`:                                             "/mcp/a/env/K has neither",
		`{` + good + `, "mcp": {"a": {"url": "https://x", "env": {"K": {"env": "X"}}}}}`:                                 "/mcp/a/env is for a command",
		`{` + good + `, "models": [{"name": "a", "script": "SCRIPT"}, {"name": "b", "script": "SCRIPT", "fallback": ["a"], "context": "16KiB"}]}`: "",
		`{` + good + `, "models": [{"name": "a", "script": "SCRIPT", "fallback": ["b"]}]}`:                                                        `falls back to "b", and there is none`,
		`{` + good + `, "models": [{"name": "a", "script": "SCRIPT"}, {"name": "a", "script": "SCRIPT"}]}`:                                        `two models "a"`,
		`{` + good + `, "models": [{"script": "SCRIPT"}]}`:                                                                                        "/models/0/name: a name has",
		`{` + good + `, "models": [{"name": "a"}]}`:                                                                                               "/models/0 has to have openai or script",
		`{` + good + `, "models": [{"name": "a", "openai": "https://m/v1"}]}`:                                                                     `"a" has none`,
		`{` + good + `, "models": [{"name": "a", "openai": "m", "model": "x"}]}`:                                                                  "there has to be a URL",
		`{` + good + `, "models": [{"name": "a", "openai": "https://m", "model": "x", "key": {"file": "/no/such"}}]}`:                             "/no/such",
		`{` + good + `, "models": [{"name": "a", "script": "SCRIPT", "context": "1KiB"}]}`:                                                        "from 16KiB to 64MiB",
		`{` + good + `, "models": [{"name": "a", "script": "SCRIPT", "contxt": "1KiB"}]}`:                                                         "/models/0/contxt is not a member",
		`{` + good + `, "model": {"script": "SCRIPT"}, "models": [{"name": "a", "script": "SCRIPT"}]}`:                                            "both /model and /models",
		`{` + good + `, "allow_networks": ["x"]}`:                                                                                                 "/allow_networks/0: ",
		`{` + good + `, "mcp": {"a": {"command": ["x"], "client": {"id": "c", "issuer": "https://i"}}}}`:                                          "/mcp/a/client is for a url",
		`{` + good + `, "mcp": {"a": {"url": "https://x", "client": {"id": "c"}}}}`:                                                               "/mcp/a/client has to have",
		`{` + good + `, "mcp": {"a": {"url": "https://x", "client": {"id": "c", "issuer": "https://i", "secret": {"env": "X", "file": "y"}}}}}`:   "/mcp/a/client/secret has both",
		`{` + good + `, "mcp": {"a": {"command": ["x"], "idle": "never", "per_user": true}}}`:                                                     "",
		`{` + good + `, "mcp": {"a": {"command": ["x"], "idle": "soon"}}}`:                                                                        "/mcp/a/idle: it has to be a duration",
		`{` + good + `, "mcp": {"a": {"command": ["x"], "idle": "0s"}}}`:                                                                          "/mcp/a/idle: it has to be a duration",
		`{` + good + `, "mcp": {"a": {"command": ["x"], "idle": 5}}}`:                                                                             "/mcp/a/idle has to be a string",
		`{` + good + `, "mcp": {"a": {"url": "https://x", "idle": "5m"}}}`:                                                                        "/mcp/a/idle is for a command",
		`{` + good + `, "mcp": {"a": {"url": "https://x", "per_user": true}}}`:                                                                    "/mcp/a/per_user is for a command",
		`{` + good + `, "mcp": {"a": {"command": ["x"], "max_users": 3}}}`:                                                                        "/mcp/a/max_users needs per_user",
		`{` + good + `, "mcp": {"a": {"command": ["x"], "per_user": true, "max_users": 0}}}`:                                                      "/mcp/a/max_users has to be 1 or more",
		`{` + good + `, "mcp": {"a": {"command": ["x"], "per_user": "yes"}}}`:                                                                     "/mcp/a/per_user has to be true or false",
		`[]`:   "has to be an object",
		`{`:    "unexpected EOF",
		`{} 1`: "invalid character",
		`{"a": "` + strings.Repeat("x", mostConfig) + `"}`: "more than",
	} {
		name := writeConfig(t, filepath.Join(dir, "c.json"), strings.ReplaceAll(text, "SCRIPT", script))
		f, err := parseServe([]string{"--config", name})
		if err == nil {
			err = f.look()
		}
		got := fmt.Sprint(err)
		if (want == "") != (err == nil) || want != "" && !strings.Contains(got, want) || strings.Contains(got, "canary") {
			t.Errorf("%.200s\nis %s\nwant %s", text, got, want)
		}
	}
	if _, err := parseServe([]string{"--config", filepath.Join(dir, "none")}); err == nil {
		t.Error("there is no such file")
	}
}

// TestConfigOfTheUsage checks that the example in 'millrace check -h' is a valid configuration.
func TestConfigOfTheUsage(t *testing.T) {
	_, text, _ := strings.Cut(checkUsage, "but state and one of tools and mcp:\n")
	text, _, _ = strings.Cut(text, "\n\nThe first of")
	text = strings.ReplaceAll(text, `"tls": {…}`, `"tls": {"cert": "c", "key": "k"}`)
	c, err := readConfig(writeConfig(t, filepath.Join(t.TempDir(), "c.json"), text))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.settings(); err != nil || len(c.Tools) != 2 || len(c.Models) != 2 || c.Models[0].Key.File == "" {
		t.Errorf("%+v, %v", c, err)
	}
}

// makeCertificate writes a certificate for 127.0.0.1 and its key.
func makeCertificate(t testing.TB, dir string, serial int64) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, of, of, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "c.pem"), filepath.Join(dir, "k.pem")
	writeConfig(t, key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
	writeConfig(t, cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	return cert, key
}

// TestReload reloads a configuration during a call and a conversation. Both continue, and the changes take effect. An invalid
// configuration changes nothing.
func TestReload(t *testing.T) {
	t.Parallel()
	_, tools := startTool(t)
	dir := t.TempDir()
	state, file := filepath.Join(dir, "state"), filepath.Join(dir, "c.json")
	script := writeConfig(t, filepath.Join(dir, "script.json"), `[{"text": "one"}, {"text": "two"}]`)
	api, listen := freeAddress(t), freeAddress(t)
	cert, key := makeCertificate(t, dir, 1)
	servers := `{"url": "` + strings.Join(tools, `"}, {"url": "`) + `"}`
	configOf := func(timeout, extra string) {
		writeConfig(t, file, fmt.Sprintf(`{"state": %q, "timeout": %q, "api": {"listen": %q}, "callbacks": {"listen": %q}, "tools": [%s], "model": {"script": %q}%s}`,
			state, timeout, api, listen, servers, script, extra))
	}
	configOf("10m", "")
	s := &served{t: t, state: state, api: "http://" + api, args: []string{"serve", "--config", file}}
	s.cmd = millrace(t, s.args...)
	said := newWords()
	s.cmd.Stderr = said
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s.request(ctx, "POST", "/sessions", `{"id": "s"}`, http.StatusCreated)
	s.request(ctx, "POST", "/threads/s/messages", `{"text": "hello", "key": "hello"}`, http.StatusAccepted)
	s.request(ctx, "GET", "/threads/s/messages?from=2&wait=60s", "", http.StatusOK)
	s.request(ctx, "POST", "/calls", `{"group_id": "t", "id": "c", "operation": "sleep", "arguments": {"ms": 1500}}`, http.StatusAccepted)

	configOf("soon", "")
	said.until(ctx, t, "nothing is changed", func() { s.cmd.Process.Signal(syscall.SIGHUP) })
	configOf("20m", `, "ask_status": true`)
	said.until(ctx, t, "everything is started again", func() { s.cmd.Process.Signal(syscall.SIGHUP) })
	if _, text := s.request(ctx, "GET", "/calls/t/c?wait=60s", "", http.StatusOK); !bytes.Contains(text, []byte(`"ok":true`)) {
		t.Errorf("the call has %s", text)
	}
	s.request(ctx, "POST", "/threads/s/messages", `{"text": "again", "key": "again"}`, http.StatusAccepted)
	if _, text := s.request(ctx, "GET", "/threads/s/messages?from=4&wait=60s", "", http.StatusOK); !bytes.Contains(text, []byte("two")) && !bytes.Contains(text, []byte("again")) {
		t.Errorf("the conversation goes on with %s", text)
	}

	// The next configuration uses TLS, and a new certificate is then loaded without a signal.
	writeConfig(t, file, fmt.Sprintf(`{"state": %q, "api": {"listen": %q, "tls": {"cert": %q, "key": %q}}, "callbacks": {"listen": %[5]q, "public": "https://%[5]s", "tls": {"cert": %[3]q, "key": %[4]q}}, "tools": [%[6]s], "model": {"script": %[7]q}}`,
		state, api, cert, key, listen, servers, script))
	said.until(ctx, t, "calls at https://", func() { s.cmd.Process.Signal(syscall.SIGHUP) })
	serial := func() int64 {
		conn, err := tls.Dial("tcp", api, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			return 0
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	if n := serial(); n != 1 {
		t.Errorf("the certificate has number %d", n)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	if r, err := client.Post("https://"+listen+"/rap/v1/cb/a/b", "application/json", strings.NewReader("{}")); err != nil || r.StatusCode != http.StatusNotFound {
		t.Errorf("a callback is answered %v, %v", r, err)
	}
	makeCertificate(t, dir, 2)
	for serial() != 2 && ctx.Err() == nil {
	}
	writeConfig(t, cert, "none")
	if n := serial(); n != 2 {
		t.Errorf("while the file is no certificate it has number %d", n)
	}
	if out, err := millrace(t, "check", file).CombinedOutput(); err == nil || !bytes.Contains(out, []byte("--api-tls-cert")) {
		t.Errorf("millrace check: %s, %v", out, err)
	}
	makeCertificate(t, dir, 3)
	if out, err := millrace(t, "check", file).CombinedOutput(); err != nil || !bytes.Contains(out, []byte(tools[0])) {
		t.Errorf("millrace check: %s, %v", out, err)
	}
}

// words are the output of a process.
type words struct{ more chan string }

func newWords() *words { return &words{more: make(chan string, 1000)} }

func (s *words) Write(p []byte) (int, error) { s.more <- string(p); return len(p), nil }

// until calls do and waits until the process prints a text afterwards.
func (s *words) until(ctx context.Context, t *testing.T, want string, do func()) {
	t.Helper()
	do()
	var since strings.Builder
	for !strings.Contains(since.String(), want) {
		select {
		case text := <-s.more:
			since.WriteString(text)
		case <-ctx.Done():
			t.Fatalf("it has not said %q but %q", want, since.String())
		}
	}
}
