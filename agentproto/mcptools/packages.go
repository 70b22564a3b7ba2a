package mcptools

import (
	"path/filepath"
	"slices"
	"strings"
)

// valued are options, of programs that fetch packages, whose value is a separate word.
var valued = strings.Fields("-c --call --python --with --index-url -v --volume -e --env --env-file -p --publish -u --user -w --workdir --name --network --mount --entrypoint")

// unpinned returns the package that a command fetches and runs without a version, or "".
func unpinned(command []string) string {
	program, words := strings.TrimSuffix(filepath.Base(command[0]), ".exe"), command[1:]
	versioned := func(what string) bool { return strings.Contains(what, "==") || atVersion(what) }
	from := []string{"--from"}
	switch program {
	case "npx", "bunx":
		from, versioned = []string{"-p", "--package"}, atVersion
	case "uvx":
	case "pip", "pip3", "pipx":
		if len(words) == 0 || words[0] != "install" && words[0] != "run" {
			return ""
		}
		from, words = []string{"--spec"}, words[1:]
	case "docker", "podman":
		if len(words) == 0 || words[0] != "run" {
			return ""
		}
		from, words, versioned = nil, words[1:], func(what string) bool {
			_, tag, ok := strings.Cut(what[strings.LastIndexByte(what, '/')+1:], ":")
			return ok && tag != "latest" || strings.Contains(what, "@sha256:")
		}
	default:
		return ""
	}
	for i := 0; i < len(words); i++ {
		name, value, joined := strings.Cut(words[i], "=")
		switch {
		case slices.Contains(from, name) && !joined && i+1 < len(words):
			value = words[i+1]
		case slices.Contains(from, name) && joined:
		case slices.Contains(valued, words[i]):
			i++
			continue
		case strings.HasPrefix(words[i], "-"):
			continue
		default:
			value = words[i]
		}
		if versioned(value) {
			return ""
		}
		return value
	}
	return ""
}

// atVersion reports whether the name of a package has a version after an @. A leading @ begins its scope.
func atVersion(what string) bool {
	_, version, ok := strings.Cut(strings.TrimPrefix(what, "@"), "@")
	return ok && version != "" && version != "latest"
}
