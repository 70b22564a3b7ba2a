package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/millrace/millrace/internal/plain"
)

// hiddenText contains terminal controls, characters that reorder text, and invisible characters.
const hiddenText = "\u009b2J\u202Eevil\u2066\u200B\u200D\U000E0041\U000E0101\u007f\x1b[31m\u0007\r"

// wantNothingHidden checks that a text does not contain such characters unescaped.
func wantNothingHidden(t *testing.T, what, text string) {
	t.Helper()
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && r != '\t' && plain.Hidden(r) }) {
		t.Errorf("%s prints something hidden: %q", what, text)
	}
}

// TestLogPrintsNothingHidden runs every command that prints a history on one in which callers and tools used that
// text.
func TestLogPrintsNothingHidden(t *testing.T) {
	t.Parallel()
	_, tools := startTools(t, "clock")
	state := filepath.Join(t.TempDir(), "state")
	s := serveRuntime(t, state, tools, "--keep-for", "forever")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	text, err := json.Marshal("the word is " + hiddenText)
	if err != nil {
		t.Fatal(err)
	}
	for id, operation := range map[string]string{"c1": "echo", "c2": "nosuch" + hiddenText} {
		name, _ := json.Marshal(operation)
		s.request(ctx, "POST", "/calls", fmt.Sprintf(`{"group_id":"t","id":%q,"operation":%s,"user_id":"ada","arguments":{"text":%s}}`, id, name, text), http.StatusAccepted)
		_, result := s.request(ctx, "GET", "/calls/t/"+id+"?wait=20s", "", http.StatusOK)
		wantNothingHidden(t, "the API", string(result))
	}
	s.terminate()
	for _, args := range [][]string{{"list"}, {"show"}, {"show", "--json"}, {"replay", "--most", "-1"}} {
		out, errs, _ := logOf(t, append(args, "--state", state)...)
		wantNothingHidden(t, fmt.Sprint("log ", args), out+errs)
		if args[0] == "replay" && !strings.Contains(out, "the word is ") {
			t.Errorf("log %v does not show the call: %q", args, out)
		}
	}
	path := filepath.Join(t.TempDir(), "run.mrh")
	for _, args := range [][]string{{"export", path, "--state", state}, {"info", path}, {"steps", path, "--most", "-1"}, {"check", path}} {
		out, errs, _ := historyOf(t, args...)
		wantNothingHidden(t, fmt.Sprint("history ", args), out+errs)
	}
}

// TestToolCommandPrintsNothingHidden has a tool server started by the runtime print such text and exit. The text
// is on standard error and in the errors about the server.
func TestToolCommandPrintsNothingHidden(t *testing.T) {
	t.Parallel()
	cmd := millrace(t, "run", "--tool-command", `sh -c 'printf "%b" "\\033[31m\\302\\2332J\\342\\200\\256 evil \\177" >&2; exit 3' {port}`, "-")
	cmd.Stdin = strings.NewReader("")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.Run()
	wantNothingHidden(t, "run", said.String())
	if !strings.Contains(said.String(), `\u{1b}[31m`) || !strings.Contains(said.String(), "exit status 3") {
		t.Errorf("it says %q", said.String())
	}
}
