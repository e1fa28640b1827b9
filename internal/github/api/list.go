package api

import (
	gh "github.com/google/go-github/v60/github"
)

// PageSize is GitHub's maximum.
const PageSize = 100

// listPages bounds how much eachPage reads.
const listPages = 10

// EachPage requests the pages of a list in order, at most listPages.
func EachPage(ask func(gh.ListOptions) (*gh.Response, error)) error {
	opts := gh.ListOptions{PerPage: PageSize}
	for range listPages {
		resp, err := ask(opts)
		if err != nil {
			return Normalize(err)
		}
		if opts.Page = resp.NextPage; opts.Page == 0 {
			return nil
		}
	}
	return nil
}
