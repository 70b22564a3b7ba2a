package agui_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/millrace/millrace/agentproto/agui"
	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/host"
)

// A run sends the user's message to the model and streams the turn.
func Example() {
	ctx := context.Background()
	rt, err := host.Start(ctx, host.Options{Model: conversation.Script{{Text: "Hello, Ada."}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Stop(ctx)
	server := httptest.NewServer(agui.New(rt, agui.Options{}))
	defer server.Close()

	resp, err := http.Post(server.URL, "application/json", strings.NewReader(
		`{"threadId":"t1","runId":"r1","tools":[],"context":[],"messages":[{"id":"u1","role":"user","content":"I am Ada."}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if strings.Contains(lines.Text(), `"Hello, Ada."`) && strings.Contains(lines.Text(), `"TEXT_MESSAGE_CONTENT"`) {
			fmt.Println("the model has answered")
		}
		if strings.Contains(lines.Text(), `"RUN_FINISHED"`) {
			fmt.Println("the run is over")
		}
	}
	// Output:
	// the model has answered
	// the run is over
}
