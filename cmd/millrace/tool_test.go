package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/follow"
)

// serveTool starts an example server and returns its URL once it is up.
func serveTool(t *testing.T, args ...string) (cmd *exec.Cmd, url string) {
	t.Helper()
	cmd = millrace(t, append([]string{"tool"}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the tool server did not start: %v", err)
	}
	return cmd, strings.Fields(line)[1]
}

// scriptFile returns the name of a script with these replies.
func scriptFile(t *testing.T, replies ...conversation.Reply) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "script.json")
	if err := writeScript(name, replies); err != nil {
		t.Fatal(err)
	}
	return name
}

// historyOf reads the history of a thread until a message contains the text.
func (s *served) historyOf(ctx context.Context, thread, until string) (all []follow.Message) {
	for ctx.Err() == nil {
		var more []follow.Message
		_, text := s.request(ctx, "GET", fmt.Sprintf("/threads/%s/messages?from=%d&wait=5s", thread, len(all)), "", http.StatusOK)
		if err := json.Unmarshal(text, &more); err != nil {
			s.t.Fatalf("%v: %s", err, text)
		}
		if all = append(all, more...); strings.Contains(string(text), until) {
			return all
		}
	}
	s.t.Fatalf("there is no %q in the history: %+v", until, all)
	return nil
}

// texts returns the text of each message in a history.
func texts(history []follow.Message) (all []string) {
	for _, m := range history {
		for _, c := range m.Content {
			all = append(all, c.String())
		}
	}
	return all
}

// TestToolKilled kills a tool server that has a subscription and restarts it on its state. The
// subscription continues: the conversation receives each number once, in order.
func TestToolKilled(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	args := []string{"--port", address[strings.LastIndexByte(address, ':')+1:], "--state", t.TempDir(), "feed"}
	tool, url := serveTool(t, args...)
	s := serveRuntime(t, t.TempDir(), []string{url}, "--model", "script:"+scriptFile(t,
		conversation.Reply{Text: "I listen.", Calls: []conversation.Call{{Name: "tick", Arguments: `{"ms":150,"count":12,"inline":true}`}}},
	))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s.request(ctx, "POST", "/sessions", `{"id":"t"}`, http.StatusCreated)
	s.request(ctx, "POST", "/threads/t/messages", `{"text":"Count.","key":"count"}`, http.StatusAccepted)
	s.historyOf(ctx, "t", `"tick 4"`)
	tool.Process.Kill()
	tool.Wait()
	if _, again := serveTool(t, args...); again != url {
		t.Fatalf("it is at %s now, not at %s", again, url)
	}
	got := texts(s.historyOf(ctx, "t", `"tick 12"`))
	want := []string{"counting, every 150 ms"}
	for n := range 12 {
		want = append(want, fmt.Sprint("tick ", n+1))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the conversation was told %q, want %q", got, want)
	}
}

// TestServeAskStatus makes a tool server forget a call while the runtime is down. With
// --ask-status, the restarted runtime learns of the loss and does not wait for the result.
func TestServeAskStatus(t *testing.T) {
	address := freeAddress(t)
	args := []string{"--port", address[strings.LastIndexByte(address, ':')+1:], "slow"}
	tool, url := serveTool(t, args...)
	s := serveRuntime(t, t.TempDir(), []string{url}, "--ask-status")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s.request(ctx, "POST", "/calls", `{"group_id":"t","id":"c","operation":"sleep","arguments":{"ms":600000}}`, http.StatusAccepted)
	s.request(ctx, "GET", "/calls/t/c?wait=1s", "", http.StatusNoContent) // the server accepts the call in the meantime
	s.kill()
	tool.Process.Kill()
	tool.Wait()
	serveTool(t, args...)
	s.start()
	_, text := s.request(ctx, "GET", "/calls/t/c?wait=20s", "", http.StatusOK)
	var r apiResult
	if err := json.Unmarshal(text, &r); err != nil || r.OK || r.Cause != agentproto.ByLoss.String() {
		t.Errorf("%s, %v", text, err)
	}
}

// TestServeSecrets checks that a runtime and a tool server sign their messages, and that the server
// refuses a runtime without the secret.
func TestServeSecrets(t *testing.T) {
	secrets := filepath.Join(t.TempDir(), "secrets")
	if err := os.WriteFile(secrets, []byte("whsec_MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI=\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, url := serveTool(t, "--port", "0", "--secrets", secrets, "clock")
	for _, test := range []struct {
		flags []string
		ok    bool
	}{{[]string{"--secret", url + "=" + secrets}, true}, {nil, false}} {
		s := serveRuntime(t, t.TempDir(), []string{url}, test.flags...)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		s.request(ctx, "POST", "/calls", `{"group_id":"t","id":"c","operation":"echo","arguments":{"text":"signed"}}`, http.StatusAccepted)
		_, text := s.request(ctx, "GET", "/calls/t/c?wait=20s", "", http.StatusOK)
		var r apiResult
		if err := json.Unmarshal(text, &r); err != nil || r.OK != test.ok || r.OK && r.Text != "signed" {
			t.Errorf("%q: %s, %v", test.flags, text, err)
		}
		cancel()
		s.kill()
	}
}

// TestServeModel checks that a model behind HTTP receives the API key from the environment, and the
// tools.
func TestServeModel(t *testing.T) {
	t.Setenv(keyEnv, "sk-of-this-test")
	asked := make(chan string, 10)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Model    string
			Messages []json.RawMessage
			Tools    []struct{ Function struct{ Name string } }
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		asked <- fmt.Sprintf("%s %s %s %d tools", r.URL.Path, r.Header.Get("Authorization"), body.Model, len(body.Tools))
		w.Header().Set("Content-Type", "text/event-stream")
		delta, end := `{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"add","arguments":"{\"a\":19,\"b\":23}"}}]}`, "tool_calls"
		if strings.Contains(fmt.Sprintf("%s", body.Messages), `"42"`) {
			delta, end = `{"content":"It is 42."}`, "stop"
		}
		fmt.Fprintf(w, "data: {\"id\":\"1\",\"choices\":[{\"index\":0,\"delta\":%s}]}\n\n", delta)
		fmt.Fprintf(w, "data: {\"id\":\"1\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":%q}]}\n\ndata: [DONE]\n\n", end)
	}))
	defer service.Close()
	_, url := serveTool(t, "--port", "0", "clock")
	s := serveRuntime(t, t.TempDir(), []string{url}, "--model", "openai:"+service.URL+"/v1", "--model-name", "tiny")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s.request(ctx, "POST", "/sessions", `{"id":"t"}`, http.StatusCreated)
	s.request(ctx, "POST", "/threads/t/messages", `{"text":"19 and 23?","key":"sum"}`, http.StatusAccepted)
	s.historyOf(ctx, "t", "It is 42.")
	for range 2 {
		got := <-asked
		if !strings.HasPrefix(got, "/v1/chat/completions Bearer sk-of-this-test tiny ") || strings.HasSuffix(got, " 0 tools") {
			t.Errorf("the model was asked %q", got)
		}
	}
}
