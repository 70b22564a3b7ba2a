package main

import (
	"os"
	"strings"
	"testing"
)

// TestMain lets the test binary act as the MCP server, as the command does.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "post" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestRun checks the conversation of the program. It contains two calls at once, one of them to
// the MCP server, a form that the user fills in, and an event that arrives after the turn.
func TestRun(t *testing.T) {
	var said strings.Builder
	if err := run(t.Context(), &said); err != nil {
		t.Fatal(err)
	}
	const want = `user: Buy me some tea.
assistant: stock({"name":"tea"}) post_postage({"grams":300})
result: 5 packets of tea, each 100 g, at 2.50
result: 300 g cost 330 cents
assistant: There is tea. I let you choose. order({"name":"tea"})
result: 3 packets of tea are ordered
assistant: follow({"name":"tea"})
result: You will hear of it.
assistant: It is ordered. I will tell you when it is there.
assistant: incoming_event({"kind":"event","tool_call_id":"call-3-1","tool":"follow","arguments":{"name":"tea"},"final":true})
result: The tea has arrived.
assistant: Your tea is there.
`
	if said.String() != want {
		t.Errorf("the conversation is\n%s\nwant\n%s", said.String(), want)
	}
}
