package mcptools_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/mcptools"
)

// hostile runs an MCP server that writes messages which no library writes. What it does is in lines of the form "method text": for
// a request of that method, it writes the text, in which $ID is the id of the request and $CALL that of the last tools/call. The
// method of an answer is "answer". A line without a method belongs to the one above it.
func hostile(script string) error {
	answers := map[string][]string{
		"server/discover": {`{"jsonrpc":"2.0","id":$ID,"error":{"code":-32601,"message":"no such method"}}`},
		"initialize":      {`{"jsonrpc":"2.0","id":$ID,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{"subscribe":true}},"serverInfo":{"name":"h","version":"1"}}}`},
		"tools/list":      {`{"jsonrpc":"2.0","id":$ID,"result":{"tools":[{"name":"do","inputSchema":{"type":"object"}}]}}`},
		"tools/call":      {`{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"done"}]}}`},
	}
	last := ""
	for text := range strings.Lines(script) {
		method, answer, _ := strings.Cut(strings.TrimSuffix(text, "\n"), " ")
		if method != "" {
			last, answers[method] = method, nil
		}
		answers[last] = append(answers[last], answer)
	}
	call := ""
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if err := json.Unmarshal(in.Bytes(), &m); err != nil {
			return err
		}
		switch m.Method {
		case "tools/call":
			call = string(m.ID)
		case "":
			m.Method = "answer"
		}
		for _, answer := range answers[m.Method] {
			fmt.Println(strings.NewReplacer("$ID", string(m.ID), "$CALL", call).Replace(answer))
		}
	}
	return in.Err()
}

// TestHostile calls a server that sends messages without their parameters, and answers that nobody waits for.
func TestHostile(t *testing.T) {
	const script = `tools/call {"jsonrpc":"2.0","method":"notifications/resources/updated"}
 {"jsonrpc":"2.0","method":"notifications/resources/updated","params":null}
 {"jsonrpc":"2.0","method":"notifications/elicitation/complete"}
 {"jsonrpc":"2.0","method":"notifications/progress"}
 {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
 {"jsonrpc":"2.0","method":"notifications/cancelled"}
 {"jsonrpc":"2.0","id":77,"method":"elicitation/create"}
 {"jsonrpc":"2.0","id":4711,"result":{}}
 {"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"done"}]}}
 {"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"done twice"}]}}`
	d := newDesk(t, func(o *mcptools.Options) {
		o.Servers[0].Env = map[string]string{peerEnv: o.Servers[0].Env[peerEnv], "MODE": "hostile", "SCRIPT": script}
	})
	for _, id := range []string{"c1", "c2"} {
		d.call("thread", id, "do", "{}")
		d.want("call "+id, "done")
	}
}

// TestHostileForm answers a form whose schema refers to itself.
func TestHostileForm(t *testing.T) {
	const script = `tools/call {"jsonrpc":"2.0","id":77,"method":"elicitation/create","params":{"message":"Sure?","requestedSchema":` +
		`{"type":"object","properties":{"yes":{"type":"boolean"}},"allOf":[{"$ref":"#"}]}}}` +
		"\nanswer " + `{"jsonrpc":"2.0","id":$CALL,"result":{"content":[{"type":"text","text":"done"}]}}`
	d := newDesk(t, func(o *mcptools.Options) {
		o.Servers[0].Env = map[string]string{peerEnv: o.Servers[0].Env[peerEnv], "MODE": "hostile", "SCRIPT": script}
	})
	d.call("thread", "c1", "do", "{}")
	m := d.next()
	if c, ok := m.(*agentproto.UserChoice); ok { // the form is shown
		d.post(c.ResponseURL, `{"id":"c1","selected":0}`)
		m = d.next()
	}
	if r, ok := m.(*agentproto.ToolResult); !ok || r.String() != "done" {
		t.Errorf("the call: %v", m)
	}
}
