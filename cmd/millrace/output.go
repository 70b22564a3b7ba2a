package main

import (
	"os"

	"github.com/millrace/millrace/internal/plain"
)

// stdout and stderr are where this command writes what others had a word in: what a terminal
// would obey, and what cannot be seen, is spelled out. JSON goes through [plain.JSON] first.
var (
	stdout = plain.NewWriter(os.Stdout)
	stderr = plain.NewWriter(os.Stderr)
)
