package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"strings"

	"github.com/millrace/millrace/internal/edge"
)

const migrateUsage = `usage: millrace migrate SESSION --to URL [flags]

Moves a session from a running 'millrace serve' to another one, which was started with the
same --migration-key file, and waits until it is there. Its tool servers hand over what
they have of the session, its history and pending calls move, and results that come to the
old address later are handed on. Tool servers on other hosts that listen on loopback hand over
through the runtimes, and have to allow that: 'millrace tool --migrate-to URL'. If anything fails, the session stays, and the exit status
is 1.

`

func migrate(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("migrate", flag.ContinueOnError)
	fs.Usage = func() { fmt.Fprint(fs.Output(), migrateUsage); fs.PrintDefaults() }
	to := fs.String("to", "", "`URL` at which the other runtime takes callbacks in: its --public, or http:// and its --listen")
	api := fs.String("api", "http://127.0.0.1:7341", "`URL` of the API of the runtime that has the session")
	state := fs.String("state", "state", "`folder` of that runtime, which has the token of its API")
	tokenFile := fs.String("token-file", "", "`file` with the token, if it is not in that folder")
	var session string
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		session, args = args[0], args[1:]
	}
	if err := parse(fs, args); err != nil {
		return err
	}
	if session == "" && fs.NArg() == 1 {
		session = fs.Arg(0)
	} else if fs.NArg() > 0 {
		return misused(fs, "what is %s?", strings.Join(fs.Args(), " "))
	}
	switch {
	case session == "":
		return misused(fs, "no session: it is named by its root thread")
	case *to == "":
		return misused(fs, "where to? Give --to URL")
	}
	token, err := findToken(*tokenFile, *state)
	if err != nil {
		return err
	}
	path := "/sessions/" + edge.Segment(session) + "/migrate"
	status, text, err := apiClient{*api, token}.do(ctx, http.MethodPost, path, migrateBody{To: *to})
	if err != nil {
		return fmt.Errorf("%w; is 'millrace serve' running at %s?", err, *api)
	}
	if status != http.StatusNoContent {
		return fmt.Errorf("session %q stays where it is: %s", session, problemIn(status, text))
	}
	fmt.Fprintf(stderr, "millrace migrate: session %q is at %s now\n", session, *to)
	return nil
}
