package toolserver

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/tools"
)

// View shows content to those who watch the conversation. The runtime keeps the latest content of each view type of a thread and
// does not show it to the model. Content is marshaled as JSON and must become an object; nil clears the view.
//
// View is called from a tool function, with its context or one derived from it, or from a producer. It returns once the update is
// on its way; a failed delivery is not reported. View waits while 1,000 messages of the call, or 4 MiB, are undelivered. It
// returns an error if the content is not an object, and the cause of ctx if that has ended. It panics if ctx is not one of a tool
// function.
func View(ctx context.Context, viewType string, content any) error {
	c := callOf(ctx, "View")
	if content == nil {
		content = struct{}{}
	}
	data, err := json.Marshal(content)
	if err != nil {
		return fmt.Errorf("toolserver: View: the content of %q cannot be written: %w", viewType, err)
	}
	if jsontext.Value(data).Kind() != '{' {
		return fmt.Errorf("toolserver: View: the content of %q is not a JSON object", viewType)
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	m, err := c.encode(&agentproto.ViewUpdate{GroupID: c.inv.GroupID, ViewType: viewType, Content: data})
	if err != nil {
		return err
	}
	return c.post(ctx, tools.Post{Message: m})
}
