package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTokenFiles checks which token files serve writes, what it prints about them, and
// which files it refuses to use.
func TestTokenFiles(t *testing.T) {
	_, tools := startTool(t)
	state := filepath.Join(t.TempDir(), "state")
	s := serveRuntime(t, state, tools, "--api-host", "agents.example")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s.request(ctx, "GET", "/stats", "", http.StatusOK)
	token, err := findToken("", state)
	if err != nil {
		t.Fatal(err)
	}
	if raw, err := base64.RawURLEncoding.DecodeString(token); err != nil || len(raw) != 32 {
		t.Errorf("the token is %d bytes in base64url, %v; want 32", len(raw), err)
	}
	headers, err := os.ReadFile(filepath.Join(state, headersName))
	if want := "Authorization: Bearer " + token + "\nContent-Type: application/json\n"; err != nil || string(headers) != want {
		t.Errorf("%s has %q, %v", headersName, headers, err)
	}
	for _, name := range []string{tokenName, headersName} {
		info, err := os.Stat(filepath.Join(state, name))
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("%s has mode %v, %v; want 0600", name, info.Mode(), err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, "GET", s.api+"/stats", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "agents.example"
	req.Header.Set("Authorization", "Bearer "+token)
	if resp, err := http.DefaultClient.Do(req); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("a request to the --api-host: %v, %v", resp, err)
	}
	s.kill()

	// The token is the same after a restart, and standard error says where it is.
	var said bytes.Buffer
	cmd := millrace(t, append(s.args, "--leash")...)
	cmd.Stderr, cmd.Stdout = &said, &said
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.request(ctx, "GET", "/stats", "", http.StatusOK)
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v\n%s", err, &said)
	}
	if again, err := findToken("", state); err != nil || again != token {
		t.Errorf("the token is another one after a restart: %v", err)
	}
	if text := said.String(); strings.Contains(text, token) || !strings.Contains(text, filepath.Join(state, tokenName)) || strings.Count(text, headersName) != 1 {
		t.Errorf("standard error has the token, or does not say once where it is:\n%s", text)
	}

	own := filepath.Join(t.TempDir(), "own")
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, mode); err != nil { // independent of the umask
			t.Fatal(err)
		}
	}
	tests := []struct {
		name, text string
		mode       os.FileMode
		args       []string
		want       string
	}{
		{tokenName, token, 0o644, nil, "has mode 0644"},
		{tokenName, token, 0o640, nil, "has mode 0640"},
		{tokenName, token, 0o602, nil, "has mode 0602"},
		{tokenName, "", 0o600, nil, "has no token"},
		{tokenName, "hunter2", 0o600, nil, "has no token"},
		{tokenName, token + "\nX-Other: 1", 0o600, nil, "has no token"},
		{"own", token, 0o644, []string{"--token-file", own}, "has mode 0644"},
		{"own", strings.Repeat("x", 2000), 0o600, []string{"--token-file", own}, "has no token"},
		{"own", token, 0o600, []string{"--token-file", own + "2"}, "no such file"},
		{"own", token, 0o600, []string{"--token-file", state}, "is not a file"},
	}
	for _, test := range tests {
		name := filepath.Join(state, test.name)
		if test.name == "own" {
			name = own
		}
		write(name, test.text, test.mode)
		cmd := millrace(t, append(s.args, test.args...)...)
		out, err := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(string(out), test.want) || strings.Contains(string(out), token) || strings.Contains(string(out), "EOF") {
			t.Errorf("%s of mode %v: exit %d, %v, %s; want 1 and %q", test.name, test.mode, code, err, out, test.want)
		}
		write(filepath.Join(state, tokenName), token, 0o600)
	}
}

// TestTokenElsewhere checks that an API open to other hosts requires a token file of the
// user.
func TestTokenElsewhere(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", ":0", "[::]:0"} {
		cmd := millrace(t, "serve", "--state", filepath.Join(t.TempDir(), "state"), "--tool", "http://127.0.0.1:1", "--listen", "127.0.0.1:0", "--api", address)
		out, err := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != 2 || !strings.Contains(string(out), "--token-file") {
			t.Errorf("--api %s: exit %d, %v, %s; want 2", address, code, err, out)
		}
	}
	_, tools := startTool(t)
	own := filepath.Join(t.TempDir(), "own")
	if err := os.WriteFile(own, []byte(newToken()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serveRuntime(t, filepath.Join(t.TempDir(), "state"), tools, "--token-file", own)
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(s.api, "http://"))
	s.kill()
	s.args = append(s.args, "--api", "0.0.0.0:"+port) // the last --api is used
	s.start()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s.tokenFile = own
	s.request(ctx, "GET", "/stats", "", http.StatusOK)
	if _, err := os.Stat(filepath.Join(s.state, tokenName)); err == nil {
		t.Error("there is another token in the state folder")
	}
}

// TestMigrateToken checks that 'millrace migrate' finds the token, or says that it has
// none.
func TestMigrateToken(t *testing.T) {
	_, tools := startTool(t)
	s := serveRuntime(t, filepath.Join(t.TempDir(), "state"), tools)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s.request(ctx, "GET", "/stats", "", http.StatusOK)
	wrong := filepath.Join(t.TempDir(), "wrong")
	if err := os.WriteFile(wrong, []byte(newToken()), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"--state", s.state}, "started without --migration-key"},
		{[]string{"--token-file", filepath.Join(s.state, tokenName)}, "started without --migration-key"},
		{[]string{"--token-file", wrong}, "does not have the token"},
		{[]string{"--state", t.TempDir()}, "give --state"},
		{nil, "state/api.token"}, // the default
	}
	for _, test := range tests {
		cmd := millrace(t, append([]string{"migrate", "s", "--to", "http://127.0.0.1:1", "--api", s.api}, test.args...)...)
		out, err := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(string(out), test.want) {
			t.Errorf("%q: exit %d, %v, %s; want 1 and %q", test.args, code, err, out, test.want)
		}
	}
}
