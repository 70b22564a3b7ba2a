package conform_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"

	"github.com/millrace/millrace/agentproto/conform"
	"github.com/millrace/millrace/agentproto/toolserver"
)

// A profile maps roles to a server's operations. Cases whose role is missing are not run
// and are reported as not applicable.
func Example() {
	web := httptest.NewUnstartedServer(nil)
	server := toolserver.New(toolserver.Options{
		Name: "parrot", PublicURL: "http://" + web.Listener.Addr().String(), Logger: slog.New(slog.DiscardHandler),
	})
	toolserver.Add(server, "say", "Says what it is told.",
		func(_ context.Context, in struct {
			Words string `json:"words"`
		}) (string, error) {
			return in.Words, nil
		})
	web.Config.Handler = server
	web.Start()
	defer web.Close()

	report, err := conform.RunTool(context.Background(), conform.ToolTarget{Profile: conform.ToolProfile{
		URL: web.URL,
		Roles: map[string]conform.Role{
			"echo": {Operation: "say", Arguments: json.RawMessage(`{"words":"$TEXT"}`)},
		},
	}}, conform.Options{Run: "D01|A02|A12|C08|U10"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range report.Results {
		fmt.Println(r.ID, r.Level, r.Status)
	}
	fmt.Println("exit status", report.ExitCode())
	// Output:
	// D01 M pass
	// A02 S pass
	// A12 M pass
	// C08 M pass
	// U10 P not-applicable
	// exit status 0
}

func ExampleReadBaseline() {
	known, err := conform.ReadBaseline(strings.NewReader(`
# What we have not got round to.
C04  the pause is fixed
`))
	fmt.Println(known["C04"], err)

	_, err = conform.ReadBaseline(strings.NewReader("C99 what is this"))
	fmt.Println(err)
	// Output:
	// the pause is fixed <nil>
	// conform: baseline, line 1: there is no case "C99"
}

func ExampleCases() {
	for _, c := range conform.Cases() {
		if c.For(conform.Tool) && c.ID[0] == 'X' {
			fmt.Println(c.ID, c.Level, c.Action)
		}
	}
	// Output:
	// X04 M close a thread of strange ids
	// X05 M the cleanup fails
}
