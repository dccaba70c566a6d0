// The rules for the scripts of the placement page.

import js from "@eslint/js";
import globals from "globals";

export default [
  { files: ["**/*.js"], ...js.configs.recommended },
  {
    files: ["**/*.js"],
    languageOptions: { ecmaVersion: 2022, sourceType: "module", globals: globals.browser },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      "eqeqeq": "error",
      "no-eval": "error",
      "no-implied-eval": "error",
      "no-new-func": "error",
      "no-param-reassign": "error",
      "no-shadow": ["error", { builtinGlobals: false }],
      "no-undef": "error",
      "no-unused-vars": ["error", { args: "all", argsIgnorePattern: "^_$" }],
      "no-use-before-define": ["error", { functions: false, variables: false }],
      "no-var": "error",
      "prefer-const": ["error", { destructuring: "all" }],
      // Names become text, never markup.
      "no-restricted-properties": ["error",
        { property: "innerHTML" }, { property: "outerHTML" }, { property: "insertAdjacentHTML" }, { object: "document", property: "write" }],
    },
  },
];
