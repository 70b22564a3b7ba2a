package mcptools_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/millrace/millrace/agentproto/mcptools"
)

// hostile runs an MCP server that writes messages which no library writes. What it does is in lines of the form "method text": for
// a request of that method, it writes the text, in which $ID is the id of the request. A line without a method belongs to the one
// above it.
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
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if err := json.Unmarshal(in.Bytes(), &m); err != nil {
			return err
		}
		for _, answer := range answers[m.Method] {
			fmt.Println(strings.ReplaceAll(answer, "$ID", string(m.ID)))
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
