package toolserver

import (
	"context"
	"slices"

	"github.com/millrace/millrace/agentproto/internal/tools"
)

// Grant records that the user has allowed something for the rest of the conversation, for example
// after [Choose] had "for this session" as a choice. It applies to the thread of the call and the
// threads below it until the thread is closed, and is stored in [Options.State]. What is the tool's
// own name for what is allowed; a tool that allows something only for one argument must include the
// argument in it.
//
// It panics if ctx is not one of a tool function.
func Grant(ctx context.Context, what string) error {
	c := callOf(ctx, "Grant")
	g := tools.Grant{Runtime: c.id.Runtime, Thread: c.inv.GroupID, What: digestOf(what)}
	_, err := c.server.flow.Ask(c.at, tools.In{Grant: &g})
	return err
}

// Granted reports whether [Grant] was called with the same name in the thread of the call or in one
// above it. Grants of other conversations or other runtimes do not count.
//
// It panics if ctx is not one of a tool function.
func Granted(ctx context.Context, what string) (granted bool, err error) {
	c := callOf(ctx, "Granted")
	return slices.ContainsFunc(append([]string{c.inv.GroupID}, c.inv.ThreadAncestors...), func(thread string) bool {
		g := tools.Grant{Runtime: c.id.Runtime, Thread: thread, What: digestOf(what)}
		_, ok := c.server.flow.Ports.Granted.Get(tools.GrantKey{At: c.at.Runtime, Grant: g})
		return ok
	}), nil
}
