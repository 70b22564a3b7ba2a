package main

import (
	"context"
	"os"

	"github.com/millrace/millrace/internal/undertest"
)

// underTestFlag makes millrace tool serve every role of the conformance cases, with
// the configuration that conform --self has written. It is not for users, so usage
// does not tell it.
const underTestFlag = "--under-test"

// underTestTool serves until its standard input is closed.
func underTestTool(ctx context.Context, config string) error {
	return undertest.Serve(ctx, config, os.Stdin)
}
