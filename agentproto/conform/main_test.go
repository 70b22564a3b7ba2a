package conform_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/millrace/millrace/agentproto/internal/undertest"
)

// serveArg makes the test binary serve tools instead of running tests, so that there is a
// process to kill. The next argument is the configuration.
const serveArg = "serve-under-test"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == serveArg {
		if err := undertest.Serve(context.Background(), os.Args[2], os.Stdin); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	if p := flag.Lookup("test.parallel"); p.Value.String() == p.DefValue {
		p.Value.Set("6") // the tests wait for processes more than they compute
	}
	os.Exit(m.Run())
}
