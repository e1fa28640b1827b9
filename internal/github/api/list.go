package api

import (
	gh "github.com/google/go-github/v60/github"
)

// PageSize is GitHub's maximum number of entries per page.
const PageSize = 100

// listPages is the maximum number of pages that EachPage reads.
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
