package mcptools_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/agentproto/mcptools"
)

// This example starts a runtime with the tools of an MCP server, which is a program that the set starts.
func Example() {
	ctx := context.Background()
	set, err := mcptools.Open(ctx, mcptools.Options{Servers: []mcptools.Server{{
		Name: "files", Command: []string{"true"}, // in place of mcp-server-filesystem /srv
		Tools: []string{"read_*", "list_*"}, Repeat: map[string]mcptools.Repeat{"list_sessions": mcptools.Never},
	}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer set.Close(ctx)
	rt, err := host.Start(ctx, host.Options{Local: set.Local()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Stop(ctx)
	set.SetCallbacks(rt.Handler())
	for _, p := range set.Problems() {
		fmt.Println("there is a problem:", p != nil) // the program writes nothing
	}
	// Output: there is a problem: true
}

// This example runs one program for each user, at most ten at once. A program ends after its user has not used it for five
// minutes.
func ExampleSet_Status() {
	state, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(state)
	ctx := context.Background()
	set, err := mcptools.Open(ctx, mcptools.Options{
		State: state, Bounds: mcptools.Bounds{Ends: 1}, Logger: slog.New(slog.DiscardHandler),
		Servers: []mcptools.Server{{Name: "mail", Command: []string{"true"}, PerUser: true, MaxUsers: 10, Idle: 5 * time.Minute}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer set.Close(ctx)
	for _, s := range set.Status() {
		fmt.Println(s.Name, s.State, s.Users) // the program writes nothing
	}
	// Output: mail down 0
}
